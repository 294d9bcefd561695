"""Process-wide settings: torch threads and the garbage collector."""

import gc
import os

import streamlit as st
import torch


@st.cache_resource(show_spinner=False)
def prepare() -> int:
    """Set the number of torch threads, once per process before any run.

    Many sessions share the cores, and on the small tensors of a single text several threads mostly
    wait for each other (measured: 5 to 15 times slower on a busy machine).
    """
    threads = max(1, (os.cpu_count() or 1) // 4)
    torch.set_num_threads(threads)
    return threads


@st.cache_resource(show_spinner=False)
def settle() -> bool:
    """Exempt everything loaded so far from garbage collection, once, after the first page."""
    gc.collect()
    gc.freeze()
    return True
