"""Support vector machines: SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD."""

from mercer.machines.svm.one_class import SVDD, OneClassSVM
from mercer.machines.svm.svc import SVC, NuSVC
from mercer.machines.svm.svr import SVR, NuSVR

__all__ = ["SVC", "SVDD", "SVR", "NuSVC", "NuSVR", "OneClassSVM"]
