/**
 * The agent's questions: permission, form and URL. Each says who asks, shows what is asked about, and is answered once; afterwards
 * one line says what was answered.
 */

import { visibleText } from "./choice-list.js";
import { button, h, icon, words } from "./dom.js";
import { unanswerable } from "./form.js";
import { KINDS, choiceOfForm, choiceOfPermission } from "./mapping.js";

/** The card of an open question, or the line of one that is over. */
export function askCard(item, conversation) {
  if (item.state !== "open") return settled(item);
  const card = { permission, form, url }[item.ask](item, conversation);
  const title = { permission: "asks for permission", form: "asks you", url: "asks you to open a page" }[item.ask];
  const head = h("header", {}, icon("question"), h("span", {}, words(conversation.agentName, { class: "who" }), ` ${title}`));
  return h("div", { class: "card ask" }, head, card);
}

function settled(item) {
  const completed = item.completed ? " · the agent says that it is done" : "";
  return h("p", { class: "settled", tabindex: "-1" }, icon(item.state === "lost" ? "warning" : "question"), words(item.summary + completed));
}

function permission(item, conversation) {
  const { toolCall, options } = item.params;
  const title = toolCall.title || conversation.session?.items.findLast((each) => each.toolCallId === toolCall.toolCallId)?.title;
  const select = (optionId) => {
    const { name } = options.find((option) => option.optionId === optionId);
    conversation.answer(item, { outcome: { outcome: "selected", optionId } }, `${title || "Tool call"}: ${name}`);
  };
  const choice = choiceOfPermission(title || "May this tool be used?", options);
  if (choice) return choiceList(choice, (value) => select(value));
  if (!options.length) return h("p", {}, "The agent offers no answer. Stop the turn to go on.");
  const rows = options.map(({ optionId, name, kind }) =>
    h("div", {}, button(words(name || optionId), () => select(optionId)), h("span", { class: "hint" }, ` ${KINDS[kind] ?? ""}`)));
  return h("div", { class: "group" }, words(title ?? "May this tool be used?", {}, "p"), rows);
}

function choiceList({ frame, values, initial }, answer, { review = false, controls = [] } = {}) {
  const list = h("acp-choice-list", { review, initial, on: { "acp-select": ({ detail }) => answer(values.get(detail.choiceId), detail) } });
  list.frame = frame;
  for (const control of controls) control.slot = "controls";
  list.append(...controls);
  return list;
}

const declining = (item, conversation) => [
  button("Decline", () => conversation.answer(item, { action: "decline" }, "Declined"), { class: "decline" }),
  button("Cancel", () => conversation.answer(item, { action: "cancel" }, "Cancelled"), { class: "cancel" }),
];

function form(item, conversation) {
  const { requestedSchema: schema, message } = item.params;
  const accept = (content, summary) => conversation.answer(item, { action: "accept", content }, summary);
  const choice = choiceOfForm(item.params);
  if (choice) {
    const skip = choice.optional ? [button("Skip", () => accept({}, "Skipped"), { class: "skip" })] : [];
    const answer = (value, { choiceId }) => {
      const { label } = choice.frame.props.choices.find(({ id }) => id === choiceId);
      accept(Object.fromEntries([[choice.property, value]]), `${message} ${label}`);
    };
    return choiceList(choice, answer, { review: true, controls: [...skip, ...declining(item, conversation)] });
  }
  const question = words(message ?? "", { class: "question" }, "p");
  const missing = unanswerable(schema);
  if (missing.length) {
    const told = words(`The console has no field for what the agent requires: ${missing.join(", ")}.`, {}, "p");
    return h("div", {}, question, told, h("div", { class: "controls" }, declining(item, conversation)));
  }
  const fields = h("acp-form", { on: { "acp-submit": ({ detail }) => accept(detail, `${message ?? "Form"} Sent`) } });
  fields.show(schema, ...declining(item, conversation));
  return h("div", {}, question, fields);
}

function url(item, conversation) {
  const address = addressOf(item.params.url);
  const question = words(item.params.message ?? "", { class: "question" }, "p");
  if (!address) {
    const told = [h("p", {}, "This is not a web address, so it cannot be opened:"), words(item.params.url, { class: "address" }, "p")];
    return h("div", {}, question, told, h("div", { class: "controls" }, declining(item, conversation)));
  }
  const open = button("Open in a new tab", () => {
    // Without opener or referrer: the page that opens learns nothing of this one and cannot reach it.
    window.open(address.href, "_blank", "noopener,noreferrer");
    conversation.answer(item, { action: "accept" }, `Opened ${address.host}`);
  }, { class: "primary" });
  const host = h("p", {}, "The page belongs to ", h("strong", { class: "host" }, visibleText(address.host)), ".");
  const warnings = warningsFor(address).map((text) => h("p", { class: "warn" }, icon("warning"), text));
  const shown = words(address.href, { class: "address", dir: "ltr" }, "p");
  return h("div", {}, question, host, shown, warnings, h("div", { class: "controls" }, open, declining(item, conversation)));
}

/** A web address, parsed as the browser will open it; null for every other scheme. */
function addressOf(text) {
  try {
    const address = new URL(text);
    return ["https:", "http:"].includes(address.protocol) ? address : null;
  } catch {
    return null;
  }
}

function warningsFor({ protocol, hostname, username, password }) {
  const warnings = [];
  if (protocol === "http:" && !/^(localhost|127\.|\[::1\])/.test(hostname)) warnings.push("The connection to it is not encrypted.");
  if (/(^|\.)xn--/.test(hostname)) warnings.push("Its name contains letters that can look like others.");
  if (username || password) warnings.push("It carries a user name, which can be made to look like another host.");
  return warnings;
}
