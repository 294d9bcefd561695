"""What `streamlit run` serves: the app of app.py and, beside it, the live lane."""

import streamlit as st

from viz_app import live

app = st.App("app.py", routes=live.routes())
