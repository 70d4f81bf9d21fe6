// One prompt turn with the TypeScript SDK's WebSocket client; prints what it saw as one JSON object.
// Arguments: URL, package of the SDK, `ws` or `native`, JSON of {protocols, headers}; standard input: the prompt.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, sdk, kind, extra] = process.argv.slice(2);
const require = createRequire(`${process.env.NODE_PACKAGES}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));

const acp = await load(sdk);
const { createWebSocketStream } = await load(`${sdk}/experimental/ws-client`);
const options = JSON.parse(extra ?? "{}");
if (kind === "ws") options.WebSocket = (await load("ws")).default.WebSocket;

const seen = { text: "", asked: 0 };
const app = acp
  .client({ name: "interop" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    if (params.update.sessionUpdate === "agent_message_chunk") seen.text += params.update.content.text;
  })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked += 1;
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  });

await app.connectWith(createWebSocketStream(url, options), async (context) => {
  await context.request(acp.methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await context.request(acp.methods.agent.session.new, { cwd: "/", mcpServers: [] });
  const prompt = [{ type: "text", text: readFileSync(0, "utf8") }];
  seen.stopReason = (await context.request(acp.methods.agent.session.prompt, { sessionId, prompt })).stopReason;
});
process.stdout.write(JSON.stringify(seen), () => process.exit(0));
