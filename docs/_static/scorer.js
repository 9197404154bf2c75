// How results of the search are ranked: pages that explain before those that list.
var Scorer = {
  // [docname, title, anchor, descr, score, filename, kind] -> score
  score: ([docname, title, anchor, descr, score]) => {
    const place = docname.split("/")[0];
    const more = { start: 6, guide: 6, course: 10, gallery: 4 };
    const less = { decisions: -6, changelog: -8, coverage: -6, sg_execution_times: -50 };
    return score + (more[place] ?? less[place] ?? 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
