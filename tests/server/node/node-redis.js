// node-redis: commands by RESP2 and RESP3. Prints one line of JSON.
const { createClient } = require("redis");

// A map of RESP3 is a map, an object or a flat array here; RESP2 has the values alone.
function entriesOf(reply) {
  if (reply instanceof Map) return reply.get("entries");
  if (!Array.isArray(reply)) return reply.entries;
  return reply[0] === "cursor_id" ? reply[3] : reply[1];
}

async function run(version) {
  const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}`, RESP: version });
  client.on("error", (error) => {
    throw error;
  });
  await client.connect();
  const found = [];
  for (const attribute of ["reply_type", "input_type"]) {
    found.push(await client.sendCommand(["SESSION.ATTRIBUTE", "SET", attribute, "json"]));
  }
  const bucket = `node${version}`;
  found.push(await client.sendCommand(["BUCKET.CREATE", bucket]));
  const documents = Array.from({ length: 10 }, (_, n) => JSON.stringify({ n }));
  found.push((await client.sendCommand(["BUCKET.INSERT", bucket, "DOCS", ...documents])).length);
  const replies = await Promise.all(
    Array.from({ length: 10 }, (_, n) => client.sendCommand(["BUCKET.QUERY", bucket, JSON.stringify({ n })])),
  );
  found.push(
    replies.map((reply) => {
      const entries = entriesOf(reply);
      return JSON.parse(entries[0]).n;
    }),
  );
  await client.sendCommand(["BUCKET.QUERY", "nowhere", "{}"]).catch((error) => found.push(error.message));
  await client.close();
  return found;
}

(async () => {
  console.log(JSON.stringify([await run(2), await run(3)]));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
