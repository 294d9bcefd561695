"""Pure drawing: a trace and a choice of head in, bytes or text out.

No Streamlit here, so it works in a notebook too.
"""
