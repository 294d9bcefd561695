"""What is done once for the whole process: how many threads one run has, and what the garbage collector leaves alone."""

import gc
import os

import streamlit as st
import torch


@st.cache_resource(show_spinner=False)
def prepare() -> int:
    """Once a process, before anything runs: the threads of one run. Many sessions share the cores, and on the small
    tensors of one text several threads mostly wait for each other (measured: 5 to 15 times slower on a busy machine)."""
    threads = max(1, (os.cpu_count() or 1) // 4)
    torch.set_num_threads(threads)
    return threads


@st.cache_resource(show_spinner=False)
def settle() -> bool:
    """Once a process, when the first page stands: put what is loaded by now outside the garbage collector's rounds."""
    gc.collect()
    gc.freeze()
    return True
