// Answers questions with mingo: reads them as JSON from standard input, writes the answers as JSON.
// See record.py for the form of both.
const { Query, update } = require(require.resolve("mingo", { paths: [process.argv[2]] }));
const { version } = require(require.resolve("mingo/package.json", { paths: [process.argv[2]] }));

const answers = {
  filters: ([document, filter]) => new Query(filter).test(document),
  sorts: ([documents, sort]) => new Query({}).find(documents).sort(sort).all().map((document) => document._id),
  updates: ([document, change, filters, query]) => {
    const after = structuredClone(document);
    update(after, change, filters, query, { cloneMode: "deep" });
    return after;
  },
};

const answered = (answer, question) => {
  try {
    return answer(structuredClone(question));
  } catch (error) {
    return { error: String(error.message) };
  }
};

let text = "";
process.stdin.on("data", (part) => (text += part));
process.stdin.on("end", () => {
  const asked = JSON.parse(text);
  const found = { version };
  for (const [kind, questions] of Object.entries(asked)) {
    found[kind] = questions.map((question) => answered(answers[kind], question));
  }
  process.stdout.write(JSON.stringify(found));
});
