"""Commands: look-alikes of LIBSVM's tools."""
