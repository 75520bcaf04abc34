import { useState } from "preact/hooks";
import { call } from "../core/api.js";
import { ago, money, suffixOf } from "../core/format.js";
import { html } from "../core/html.js";
import { recount } from "../core/live.js";
import { may } from "../core/session.js";
import { Code } from "./code.js";
import { Diff, UnifiedDiff } from "./diff.js";
import { Icon } from "./icon.js";
import { toast } from "./toast.js";

/** Codes that say that another person was first, or that it is too late. */
const settled = {
  approval_not_pending: "Somebody else has decided this.",
  approval_expired: "This request has expired.",
  not_found: "This request is gone.",
};

/** A call that waits for a person: what it would do, why it is asked, and the buttons that decide. */
export function Approval({ request, onDecided }) {
  const { approval_id, tool_name, thread_id, args = {}, evidence = {}, reason, rule_id, expires_at } = request;
  const [note, setNote] = useState("");
  const [edited, setEdited] = useState(null);
  const [result, setResult] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const isUnknown = evidence.outcome === "unknown";
  const isAllowed = may("POST /approvals/{approval_id}/decide");

  const decide = async (decision) => {
    setProblem("");
    const body = { decision, note };
    if (decision === "approved" && edited !== null) {
      try {
        body.edited_args = JSON.parse(edited);
      } catch (error) {
        setProblem(`The arguments are not JSON: ${error.message}`);
        return;
      }
    }
    if (decision === "denied" && result !== "") body.result = result;
    setBusy(true);
    try {
      await call("POST /approvals/{approval_id}/decide", { approval_id, ...body });
      toast(decision === "approved" ? `Approved ${tool_name}` : `Denied ${tool_name}`);
      onDecided?.(decision);
    } catch (error) {
      if (settled[error.code]) {
        toast(settled[error.code], "error");
        onDecided?.("settled");
      } else
        setProblem(
          error.code === "same_principal"
            ? "The rule wants another person to decide than the one who asked."
            : error.message,
        );
    }
    setBusy(false);
    void recount();
  };

  const subject = thread_id ? `${tool_name} in ${suffixOf(thread_id)}` : tool_name;
  return html`<section class="approval" aria-label=${`Approval of ${subject}`}>
    <header>
      <${Icon} name="warn" />
      <div>
        <b>${isUnknown ? html`Did <code>${tool_name}</code> happen?` : html`May <code>${tool_name}</code> run?`}</b>
        ${reason ? html`<p dir="auto">${reason}</p>` : null}
      </div>
    </header>
    <${Evidence} evidence=${evidence} rule=${rule_id} expires=${expires_at} />
    ${
      edited === null
        ? html`<${Arguments} args=${args} of=${subject} />`
        : html`<label>Arguments as JSON<textarea class="mono" rows="6" spellcheck=${false} value=${edited} onInput=${(event) => setEdited(event.target.value)}></textarea></label>`
    }
    ${
      isAllowed
        ? html`<div class="decide">
          <input type="text" aria-label="Note" placeholder="Note (optional)" value=${note} maxlength="2000" onInput=${(event) => setNote(event.target.value)} />
          ${
            isUnknown
              ? html`<input type="text" aria-label="Its result" placeholder="Its result, if you know it" value=${result} onInput=${(event) => setResult(event.target.value)} />`
              : null
          }
          ${problem ? html`<p class="problem" role="alert">${problem}</p>` : null}
          <div class="buttons">
            <button type="button" class="primary" disabled=${isBusy} onClick=${() => decide("approved")}>
              <${Icon} name="check" size=${16} /> ${isUnknown ? "Run it again" : edited === null ? "Approve" : "Approve edited"}
            </button>
            <button type="button" class="danger-soft" disabled=${isBusy} onClick=${() => decide("denied")}>
              <${Icon} name="cross" size=${16} /> ${isUnknown ? "Do not repeat" : "Deny"}
            </button>
            ${
              isUnknown
                ? null
                : html`<button type="button" class="ghost" onClick=${() => setEdited(edited === null ? JSON.stringify(withoutPreview(args), null, 2) : null)}>
                  <${Icon} name="edit" size=${16} /> ${edited === null ? "Edit arguments" : "Keep arguments"}
                </button>`
            }
          </div>
        </div>`
        : html`<p class="hint">Deciding needs the scope <code>approvals:write</code>.</p>`
    }
  </section>`;
}

/** The facts beside a call: its effect and risk, where its text comes from, and what the run has spent. */
export function Evidence({ evidence, rule, expires }) {
  const { effect, risk, cost_usd, tool_calls, tainted = [], outcome, ...rest } = evidence;
  const others = Object.entries(rest).filter(([, value]) => typeof value !== "object");
  return html`<ul class="chips" aria-label="Evidence">
    ${effect ? html`<li class=${`chip ${effect === "read" ? "" : "warn"}`}>effect ${effect}</li>` : null}
    ${risk ? html`<li class="chip">${risk}</li>` : null}
    ${tainted.map(({ source }) => html`<li class="chip bad" title="Text from outside has influenced this call">from ${source}</li>`)}
    ${outcome ? html`<li class="chip warn">outcome ${outcome}</li>` : null}
    ${cost_usd === undefined ? null : html`<li class="chip">${money(cost_usd)} so far</li>`}
    ${tool_calls === undefined ? null : html`<li class="chip">call ${tool_calls}</li>`}
    ${others.map(([name, value]) => html`<li class="chip">${name} ${String(value)}</li>`)}
    ${rule ? html`<li class="chip" title="The rule that asks">rule ${rule}</li>` : null}
    ${expires ? html`<li class="chip"><${Icon} name="clock" size=${13} /> expires ${ago(expires)}</li>` : null}
  </ul>
  ${
    tainted.length === 0
      ? null
      : html`<details class="tainted"><summary>What the agent has read from outside</summary>
        ${tainted.map(({ source, text }) => html`<figure><figcaption>${source}</figcaption><blockquote dir="auto" class="break">${text}</blockquote></figure>`)}
      </details>`
  }`;
}

/** The arguments of a call: changes of a text as a difference, all others as JSON. */
export function Arguments({ args, of = "" }) {
  const { preview, ...own } = args ?? {};
  const pair = [
    ["old_string", "new_string"],
    ["old_text", "new_text"],
    ["before", "after"],
  ].find(([before, after]) => typeof own[before] === "string" && typeof own[after] === "string");
  const rest = pair ? Object.fromEntries(Object.entries(own).filter(([name]) => !pair.includes(name))) : own;
  return html`
    ${Object.keys(rest).length > 0 || !pair ? html`<${Code} text=${rest} label=${of === "" ? "Arguments" : `Arguments of ${of}`} />` : null}
    ${pair ? html`<${Diff} before=${own[pair[0]]} after=${own[pair[1]]} />` : null}
    ${typeof preview === "string" ? html`<${UnifiedDiff} text=${preview} label="Preview" />` : preview ? html`<${Code} text=${preview} label="Preview" />` : null}
  `;
}

function withoutPreview({ preview: _preview, ...args }) {
  return args;
}
