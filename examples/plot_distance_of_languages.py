"""
A map from distances alone
==========================

Where only distances are known, there is still a kernel: with some point o as origin,

::

    k(x, y) = ½ (d(x, o)² + d(y, o)² - d(x, y)²)

is the inner product of x and y seen from o, and the distances of its feature space are
d again. It is a kernel exactly where d is a distance in some Hilbert space. Here a
point is a language, by its words for one to ten, and d the share of letters that must
be changed to turn the words of one into those of the other.
"""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np

from mercer import FromDistance, KernelKNNClassifier, KernelPCA, check
from mercer.kernels import edit_distance
from mercer.plots import show_or_save
from mercer.theory import feature_distances

plt.style.use("mercer.plots.light")

NUMERALS = """
Germanic English    one two three four five six seven eight nine ten
Germanic German     eins zwei drei vier fünf sechs sieben acht neun zehn
Germanic Dutch      een twee drie vier vijf zes zeven acht negen tien
Germanic Swedish    en två tre fyra fem sex sju åtta nio tio
Germanic Danish     en to tre fire fem seks syv otte ni ti
Germanic Norwegian  en to tre fire fem seks sju åtte ni ti
Germanic Icelandic  einn tveir þrír fjórir fimm sex sjö átta níu tíu
Romance  French     un deux trois quatre cinq six sept huit neuf dix
Romance  Italian    uno due tre quattro cinque sei sette otto nove dieci
Romance  Spanish    uno dos tres cuatro cinco seis siete ocho nueve diez
Romance  Portuguese um dois três quatro cinco seis sete oito nove dez
Romance  Romanian   unu doi trei patru cinci șase șapte opt nouă zece
Romance  Catalan    un dos tres quatre cinc sis set vuit nou deu
Slavic   Polish     jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć
Slavic   Czech      jeden dva tři čtyři pět šest sedm osm devět deset
Slavic   Slovak     jeden dva tri štyri päť šesť sedem osem deväť desať
Slavic   Croatian   jedan dva tri četiri pet šest sedam osam devet deset
Slavic   Slovene    ena dva tri štiri pet šest sedem osem devet deset
Uralic   Finnish    yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän kymmenen
Uralic   Estonian   üks kaks kolm neli viis kuus seitse kaheksa üheksa kümme
Uralic   Hungarian  egy kettő három négy öt hat hét nyolc kilenc tíz
Basque   Basque     bat bi hiru lau bost sei zazpi zortzi bederatzi hamar
Turkish  Turkish    bir iki üç dört beş altı yedi sekiz dokuz on
"""  # noqa: E501
family, name, *columns = zip(
    *map(str.split, NUMERALS.strip().splitlines()), strict=True
)
languages = list(zip(*columns, strict=True))


@cache
def share(s, t):
    """The share of letters that differ, from 0 to 1."""
    return edit_distance(s, t) / max(len(s), len(t))


@cache
def apart(x, y):
    return sum(map(share, x, y)) / len(x)


# %%
# Is it a kernel?
# ---------------
# Nobody has proved that such a distance lives in a Hilbert space, and `check` finds on
# these points that it does not: an eigenvalue is below 0. Its square root is another
# distance with the same neighbours, and of that the Gram matrix is a proper one here.
# The origin is the medoid, the most central language; another one would shift the map
# and change no distance.

kernels = {power: FromDistance(apart, power=power).resolve(languages)
           for power in (1.0, 0.5)}  # fmt: skip
for power, kernel in kernels.items():
    verdict = check(kernel, languages)
    origin = name[languages.index(kernel.origin)]
    print(f"d^{power}: origin {origin}, least eigenvalue {verdict.smallest:.2g}")
assert not check(kernels[1.0], languages).psd
assert check(kernels[0.5], languages).psd

D = np.array([[apart(x, y) for y in languages] for x in languages])
assert np.allclose(feature_distances(kernels[0.5], languages), np.sqrt(D))

# %%
# The map
# -------
# Kernel PCA draws the languages so that their distances are kept as well as two axes
# can; that is classical scaling. Families lie together. A language's nearest neighbour
# is of its own family wherever that has another member that is near at all.

kernel = kernels[0.5]
place = KernelPCA(2, kernel=kernel).fit_transform(languages)
nearest = np.argsort(D + 2 * np.eye(len(D)), axis=1)[:, 0]
same = [family[i] == family[j] for i, j in enumerate(nearest)]
strangers = [name[i] for i in range(len(name)) if not same[i]]
print(f"nearest neighbour in the family: {sum(same)} of {len(same)}, not "
      f"{', '.join(strangers)}")  # fmt: skip
machine = KernelKNNClassifier(1, kernel=kernel).fit(languages[1:], family[1:])
assert machine.predict(languages[:1]) == ["Germanic"]  # English, by the others

figure, axes = plt.subplots(1, 2, figsize=(14, 6), layout="constrained",
                            width_ratios=[1.8, 1])  # fmt: skip
left = {"Norwegian", "Danish", "Slovene", "Slovak", "Catalan", "French", "Basque"}
below = {"Danish", "Slovak", "Czech", "Estonian", "Turkish", "Swedish"}
for i, kind in enumerate(dict.fromkeys(family)):
    rows = [r for r in range(len(name)) if family[r] == kind]
    axes[0].scatter(*place[rows].T, color=f"C{i}", label=kind, s=40)
    for r in rows:
        shift = (-6 if name[r] in left else 6, -11 if name[r] in below else 3)
        side = "right" if name[r] in left else "left"
        axes[0].annotate(name[r], place[r], xytext=shift, textcoords="offset points",
                         fontsize=10, color=f"C{i}", ha=side)  # fmt: skip
axes[0].legend(loc="lower right", fontsize=9)
axes[0].margins(0.15, 0.1)
axes[0].set(title="Kernel PCA of √d, from edit distances alone",
            xlabel="first component", ylabel="second component")  # fmt: skip

for i, (power, kernel) in enumerate(kernels.items()):
    values = np.linalg.eigvalsh(kernel(languages))[::-1]
    axes[1].plot(np.arange(1, len(values) + 1), values / values[0], ".-", color=f"C{i}",
                 label="d" if power == 1 else "√d")  # fmt: skip
    if values[-1] < -1e-10:
        axes[1].annotate(f"below 0: {values[-1] / values[0]:.3f}",
                         (len(values), values[-1] / values[0]), xytext=(-130, 40),
                         textcoords="offset points", color=f"C{i}",
                         arrowprops={"arrowstyle": "->", "color": f"C{i}"})  # fmt: skip
axes[1].axhline(0, color="black", linewidth=0.8)
axes[1].legend()
axes[1].set(title="Eigenvalues of both Gram matrices", xlabel="number",
            ylabel="eigenvalue / the largest")  # fmt: skip
show_or_save()
