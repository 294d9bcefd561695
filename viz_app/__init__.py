"""The front end: a Streamlit app that shows what `models` computes.

`drawing` makes payloads, `components` are the browser parts, `views` are the pages.
"""
