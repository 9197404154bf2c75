"""Problems as data, the algorithms that solve them, and what these give back."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.outcomes": "Status Run Progress Solution Certificate",
        "mercer.solvers.boxqp": "BoxQP",
        "mercer.solvers.programs": ("svc nu_svc svr nu_svr one_class svdd quadratic"),
        "mercer.solvers.smo": "SMO",
        "mercer.solvers.semismooth": "SemismoothNewton",
        "mercer.solvers.chunking": "Chunking",
        "mercer.solvers.feature_descent": "FeatureDescent",
        "mercer.solvers.auto": "AutoSMO",
        "mercer.solvers.coordinate": "CoordinateAscent",
        "mercer.solvers.linear": "LinearSystem",
        "mercer.solvers.multiple": "KernelShares",
        "mercer.solvers.cholesky": "Cholesky",
        "mercer.solvers.conjugate_gradient": "ConjugateGradient",
        "mercer.solvers.normal_equations": "NormalEquations",
        "mercer.solvers.penalized": "Penalized",
        "mercer.solvers.newton": "Newton",
        "mercer.solvers.lasso": "L1Problem",
        "mercer.solvers.l1": "CoordinateDescent",
        "mercer.solvers.perceptron": (
            "PerceptronProblem PerceptronRule PerceptronSolution"
        ),
        "mercer.solvers.sgd": "SGD",
        "mercer.solvers.components": "Components Eigenpairs",
        "mercer.solvers.eigen": "BlockKrylov Lapack Arpack Covariance",
        "mercer.solvers.partition": "Partition Clustering",
        "mercer.solvers.clusters": "KernelLloyd",
        "mercer.solvers.bayes": "SparseBayes Posterior",
        "mercer.solvers.evidence": "EvidenceAscent",
    },
)
