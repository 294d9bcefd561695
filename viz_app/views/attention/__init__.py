"""The page Attention: which token attends to which?"""
