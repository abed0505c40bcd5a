"""Runs a training script on GPUs that are not there, and writes down what it did in one step.

`meshwright rehearse` starts `python -m meshwright.rehearsal` with the stand-in CUDA library
(tools/stand_in) preloaded. The script runs as it is: PyTorch, its caching allocator and its process
groups are the real ones, kernels compute nothing.
"""
