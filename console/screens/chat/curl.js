import { html } from "../../core/html.js";
import { who } from "../../core/session.js";
import { Code } from "../../parts/code.js";
import { Dialog } from "../../parts/dialog.js";

/** The last message as a command line, without the key. */
export function CurlDialog({ thread, manifest, close }) {
  const last = thread.entries.value.findLast(({ type }) => type === "user");
  const body = {
    manifest: manifest ?? "quick",
    thread_id: thread.id,
    messages: [{ role: "user", content: last?.text || "What is 6 * 7?" }],
  };
  const needsKey = who.value.scheme !== "none";
  const command = curlOf(`${location.origin}/chat/stream`, body, needsKey);
  return html`<${Dialog} title="The same with curl" close=${close} wide>
    <p>${needsKey ? html`Put your key into <code>SVC_KEY</code> first: <code>export SVC_KEY=…</code>. ` : null}It sends the last message of this thread again.</p>
    <${Code} text=${command} label="Command" />
  </${Dialog}>`;
}

/** Returns a command for a POSIX shell. */
function curlOf(address, body, needsKey) {
  const quoted = `'${JSON.stringify(body).replaceAll("'", `'\\''`)}'`;
  const key = needsKey ? ` \\\n  -H "Authorization: Bearer $SVC_KEY"` : "";
  return `curl -N ${address}${key} \\\n  -H "Content-Type: application/json" \\\n  -d ${quoted}`;
}
