"""The commands of `attnscope`: each module adds its own to the parser and runs them."""
