/* Pages come before the members of classes, and both before the history of the library: a reader who searches wants to
   know how a thing is done, then how it is called, and then why it came to be so. */
var Scorer = {
  score: (result) => {
    const [name, , , , score, , kind] = result;
    if (name.startsWith("docs/decisions/") || name === "CHANGELOG") return score - 100;
    if (["CONTRIBUTING", "docs/semantics", "docs/conformance", "docs/performance"].includes(name)) return score - 20;
    return kind === "object" ? score - 25 : score;
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
