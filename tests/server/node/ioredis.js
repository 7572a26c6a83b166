// ioredis: commands one by one, and a pipeline of them. Prints one line of JSON.
const Redis = require("ioredis");

// A map of RESP3 is a map, an object or a flat array here; RESP2 has the values alone.
function entriesOf(reply) {
  if (reply instanceof Map) return reply.get("entries");
  if (!Array.isArray(reply)) return reply.entries;
  return reply[0] === "cursor_id" ? reply[3] : reply[1];
}

async function main() {
  const redis = new Redis({ port: Number(process.argv[2]), host: "127.0.0.1" });
  const found = [];
  for (const attribute of ["reply_type", "input_type"]) {
    found.push(await redis.call("SESSION.ATTRIBUTE", "SET", attribute, "json"));
  }
  await redis.call("SESSION.ATTRIBUTE", "SET", "object_id_format", "hex");
  found.push(await redis.call("BUCKET.CREATE", "ioredis"));
  const documents = Array.from({ length: 10 }, (_, n) => JSON.stringify({ n }));
  const ids = await redis.call("BUCKET.INSERT", "ioredis", "DOCS", ...documents);
  found.push(ids.length);
  const pipeline = redis.pipeline();
  for (let n = 0; n < 10; n++) pipeline.call("BUCKET.QUERY", "ioredis", JSON.stringify({ n }));
  const rows = [];
  for (const [error, reply] of await pipeline.exec()) {
    if (error) throw error;
    const entries = entriesOf(reply);
    rows.push(JSON.parse(entries[0]).n);
  }
  found.push(rows);
  try {
    await redis.call("BUCKET.QUERY", "nowhere", "{}");
  } catch (error) {
    found.push(error.message);
  }
  console.log(JSON.stringify(found));
  await redis.quit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
