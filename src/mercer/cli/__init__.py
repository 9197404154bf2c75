"""The command `mercer`, and look-alikes of LIBSVM's tools."""
