// An agent served by the TypeScript SDK's own WebSocket server; prints its URL.
// Argument: package of the SDK.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [sdk] = process.argv.slice(2);
const require = createRequire(`${process.env.NODE_PACKAGES}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));

const acp = await load(sdk);
const { AcpServer } = await load(`${sdk}/experimental/server`);
const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await load(`${sdk}/experimental/node`);
const { WebSocketServer } = (await load("ws")).default;

const createAgent = () =>
  acp
    .agent({ name: "interop" })
    .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
    .onRequest(acp.methods.agent.session.new, () => ({ sessionId: "session-1" }))
    .onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
      const { sessionId } = params;
      const say = (text) =>
        client.notify(acp.methods.client.session.update, {
          sessionId,
          update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
        });
      for (const text of ["You said: ", params.prompt[0].text, " \u2028 "]) await say(text);
      const { outcome } = await client.request(acp.methods.client.session.requestPermission, {
        sessionId,
        toolCall: { toolCallId: "t1", title: "Think" },
        options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
      });
      await say(`permission ${outcome.optionId}`);
      return { stopReason: "end_turn" };
    });

const server = new AcpServer({ createAgent });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
http.listen(0, "127.0.0.1", () => console.log(`ws://127.0.0.1:${http.address().port}/acp`));
