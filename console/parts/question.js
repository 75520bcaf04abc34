import { useState } from "preact/hooks";
import { call } from "../core/api.js";
import { suffixOf } from "../core/format.js";
import { html } from "../core/html.js";
import { Icon } from "./icon.js";
import { toast } from "./toast.js";

/** A question of an agent to a person, with the fields that answer it. */
export function Question({ question, onAnswered }) {
  const { request_id, kind, prompt, options = [], thread_id } = question;
  const [text, setText] = useState(typeof question.default === "string" ? question.default : "");
  const [isBusy, setBusy] = useState(false);
  const answer = async (body) => {
    setBusy(true);
    try {
      await call("POST /chat/ui", { thread_id: suffixOf(thread_id), request_id, ...body });
      onAnswered?.(body);
    } catch (error) {
      toast(error.message, "error");
    }
    setBusy(false);
  };
  const choices = Array.isArray(options) ? options : [];
  return html`<section class="approval question" aria-label="Question">
    <header><${Icon} name="question" /><b dir="auto">${prompt}</b></header>
    ${
      kind === "input"
        ? html`<form
          class="decide"
          onSubmit=${(event) => {
            event.preventDefault();
            void answer({ value: text });
          }}
        >
          <input type="text" aria-label="Answer" value=${text} onInput=${(event) => setText(event.target.value)} />
          <div class="buttons"><button class="primary" disabled=${isBusy}>Answer</button><${Skip} answer=${answer} isBusy=${isBusy} /></div>
        </form>`
        : html`<div class="buttons">
          ${
            kind === "confirm"
              ? html`<button type="button" class="primary" disabled=${isBusy} onClick=${() => answer({ value: true })}>Yes</button>
                <button type="button" disabled=${isBusy} onClick=${() => answer({ value: false })}>No</button>`
              : choices.map(
                  (choice) =>
                    html`<button type="button" disabled=${isBusy} onClick=${() => answer({ value: choice })}>${String(choice)}</button>`,
                )
          }
          <${Skip} answer=${answer} isBusy=${isBusy} />
        </div>`
    }
  </section>`;
}

function Skip({ answer, isBusy }) {
  return html`<button type="button" class="ghost" disabled=${isBusy} onClick=${() => answer({ cancelled: true })}>Do not answer</button>`;
}
