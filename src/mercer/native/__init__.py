"""The border to the compiled core: blocks, memory, threads."""
