"""Molecules: SMILES as labelled graphs, by RDKit (the `chem` extra)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mercer.data.graphs import Graph
from mercer.io.dataset import Dataset
from mercer.io.files import Source, lines, refused, shown
from mercer.io.strings import as_labels

try:
    from rdkit import Chem, rdBase
except ImportError:
    HAS_RDKIT = False
else:
    HAS_RDKIT = True


def from_smiles(smiles: Sequence[str], hydrogens: bool = False) -> list[Graph]:
    """Molecules as graphs: atoms with their symbols, bonds with their kinds.

    Parameters
    ----------
    smiles : texts that RDKit reads
    hydrogens : whether hydrogen atoms are nodes of their own

    Examples
    --------
    >>> from mercer.io import from_smiles
    >>> from_smiles(["CCO", "c1ccccc1"])  # doctest: +SKIP
    [<Graph of 3 nodes and 2 edges, labelled, edges labelled>, ...]
    """
    _check_rdkit()
    found = []
    for i, text in enumerate(smiles):
        molecule, why = _molecule(text)
        if molecule is None:
            raise ValueError(f"RDKit does not read SMILES {i}, {shown(text)}: {why}")
        found.append(_graph(molecule, hydrogens))
    return found


def read_smiles(
    path: Source,
    target: int | None = None,
    *,
    hydrogens: bool = False,
    invalid: str = "refuse",
    limit: float | None = None,
) -> Dataset:
    """A file with SMILES, perhaps with names or labels, as graphs; needs RDKit.

    Parameters
    ----------
    path : of the file, which may be compressed; cells are divided by tabs, or by white
        space, where there are none
    target : the number of the column that is the label, from 0 on; the SMILES are the
        first of the others
    hydrogens : whether hydrogen atoms are nodes of their own
    invalid : "refuse" for an error at the first SMILES that RDKit does not read;
        "drop" to leave such lines out, which is noted
    limit : bytes that the file may have, unpacked; None for half of the memory

    Examples
    --------
    >>> from mercer.io import read_smiles
    >>> read_smiles("molecules.smi").points[0]  # doctest: +SKIP
    <Graph of 3 nodes and 2 edges, labelled, edges labelled>
    """
    _check_rdkit()
    if invalid not in ("refuse", "drop"):
        raise ValueError(f"invalid is 'refuse' or 'drop'; got {invalid!r}.")
    points, labels, left_out = [], [], []
    for number, line in lines(path, limit):
        cells = line.split("\t") if "\t" in line else line.split()
        if not cells or not line.strip():
            raise refused(path, "the line is empty.", number)
        label = ""
        if target is not None:
            try:
                label = cells.pop(target).strip()
            except IndexError:
                raise refused(
                    path, f"{len(cells)} cells, and none of number {target}.", number
                ) from None
        if not cells:
            raise refused(path, "no SMILES beside the label.", number)
        molecule, why = _molecule(cells[0].strip())
        if molecule is None and invalid == "refuse":
            raise refused(
                path,
                f"RDKit does not read {shown(cells[0])}: {why} Correct it, or pass "
                "invalid='drop'.",
                number,
            )
        if molecule is None:
            left_out.append(number)
            continue
        points.append(_graph(molecule, hydrogens))
        labels.append(label)
    if not points:
        raise refused(path, "has no molecules.")
    notes: tuple[str, ...] = ()
    if left_out:
        some = ", ".join(map(str, left_out[:5])) + ", ..." * (len(left_out) > 5)
        notes = (f"{len(left_out)} lines that RDKit does not read left out: {some}",)
    y = None if target is None else as_labels(labels)
    return Dataset(points, y, kind="graphs", notes=notes)


def _check_rdkit() -> None:
    if not HAS_RDKIT:
        raise ImportError(
            "SMILES are read with RDKit, which is not installed: pip install "
            "'mercer[chem]'."
        )


def _molecule(text: str) -> tuple[Any, str]:
    """What RDKit makes of a text, or None and why not."""
    if not text:
        return None, "it is empty."
    with rdBase.BlockLogs():  # the reason is in our error
        molecule = Chem.MolFromSmiles(text, sanitize=False)
        if molecule is None:
            return None, "it is no SMILES."
        try:
            Chem.SanitizeMol(molecule)
        except ValueError as error:
            return None, f"{error}."
    return molecule, ""


def _graph(molecule: Any, hydrogens: bool) -> Graph:
    if hydrogens:
        molecule = Chem.AddHs(molecule)
    atoms = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    bonds = list(molecule.GetBonds())
    pairs = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    kinds = [str(bond.GetBondType()).lower() for bond in bonds]
    return Graph(
        pairs, atoms, nodes=range(len(atoms)), edge_labels=kinds if kinds else None
    )
