"""The page Attention: who reads whom?"""
