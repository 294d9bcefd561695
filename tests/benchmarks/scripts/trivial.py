"""The least that Streamlit can do with a text box that is live while typing: echo it."""

import streamlit as st

st.text(st.text_input("Text", "We like him", key="source", live="0ms"))
