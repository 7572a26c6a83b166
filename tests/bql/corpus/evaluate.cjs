// Answers the questions of the corpus with mingo: reads them as JSON from standard input, writes the answers as JSON.
// See oracles.py for the form of both.
const { Query, update } = require(require.resolve("mingo", { paths: [process.argv[2]] }));

const revive = (value) => {
  if (Array.isArray(value)) return value.map(revive);
  if (value === null || typeof value !== "object") return value;
  if ("$date" in value) return new Date(value.$date);
  if ("$numberDouble" in value) return Number(value.$numberDouble);
  if ("$regularExpression" in value) return new RegExp(value.$regularExpression.pattern, value.$regularExpression.options);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, revive(item)]));
};

const written = (value) => {
  if (Array.isArray(value)) return value.map(written);
  if (value instanceof Date) return { $date: value.toISOString() };
  if (value instanceof RegExp) return { $regularExpression: { pattern: value.source, options: value.flags } };
  if (typeof value === "number" && !Number.isFinite(value)) return { $numberDouble: String(value) };
  if (value === undefined) return { $undefined: true };
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, written(item)]));
};

const answers = {
  find: ({ documents, filter }) => documents.filter((document) => new Query(filter).test(document)).map((document) => document._id),
  sort: ({ documents, filter, sort }) => new Query(filter).find(documents).sort(sort).all().map((document) => document._id),
  select: ({ documents, filter, select }) => new Query(filter).find(documents, select).all(),
  update: ({ documents, filter, update: change, filters, many }) => {
    const query = new Query(filter);
    for (const document of documents) {
      if (!query.test(document)) continue;
      update(document, change, filters, filter, { cloneMode: "deep" });
      if (!many) break;
    }
    return documents;
  },
};

let text = "";
process.stdin.on("data", (part) => (text += part));
process.stdin.on("end", () => {
  const found = JSON.parse(text).map((question) => {
    try {
      return written(answers[question.kind](revive(question)));
    } catch (error) {
      return { error: String(error.message) };
    }
  });
  process.stdout.write(JSON.stringify(found));
});
