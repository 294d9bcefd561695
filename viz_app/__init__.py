"""The front end: a Streamlit app that shows what `models` computed. `figures` draws, `components` move, `views` are the pages."""
