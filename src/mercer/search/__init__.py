"""Search over machines and kernels: `KernelSearchCV`."""
