import { count, line } from "../../core/format.js";
import { html } from "../../core/html.js";
import { Icon } from "../../parts/icon.js";
import { LongText } from "../../parts/long-text.js";
import { Markdown } from "../../parts/markdown.js";
import { Question } from "../../parts/question.js";
import { copyText } from "../../parts/toast.js";
import { StoredImage } from "./image.js";
import { Tool } from "./tool.js";

/** A message of a person, an answer with its steps, or a note between them. */
export function Entry({ entry, actions, settle }) {
  if (entry.type === "user") return html`<${UserMessage} entry=${entry} actions=${actions} />`;
  if (entry.type === "note") return html`<${Note} entry=${entry} />`;
  return html`<${Answer} entry=${entry} actions=${actions} settle=${settle} />`;
}

function UserMessage({ entry, actions }) {
  const { text, attachments, isPending, siblings } = entry;
  return html`<article class=${`message user ${isPending ? "pending" : ""}`}>
    <h2 class="hidden">You</h2>
    <div class="bubble">
      ${attachments.map((each) => html`<${StoredImage} key=${each.url ?? each.file_id} image=${each} />`)}
      ${text ? html`<${LongText} text=${text} />` : null}
    </div>
    ${
      isPending
        ? null
        : html`<div class="message-tools">
          ${siblings ? html`<${Siblings} ...${siblings} />` : null}
          <${Action} icon="copy" label="Copy message" act=${() => copyText(text)} />
          ${actions?.edit ? html`<${Action} icon="edit" label="Edit and send again" act=${() => actions.edit(entry)} />` : null}
          ${actions?.fork ? html`<${Action} icon="fork" label="Fork from here" act=${() => actions.fork(entry.event.id)} />` : null}
        </div>`
    }
  </article>`;
}

function Siblings({ at, of, choose }) {
  return html`<span class="siblings">
    <${Action} icon="left" label="Previous version" act=${() => choose(at - 1)} isOff=${at === 0} />
    <span>${at + 1} / ${of}</span>
    <${Action} icon="right" label="Next version" act=${() => choose(at + 1)} isOff=${at === of - 1} />
  </span>`;
}

function Answer({ entry, actions, settle }) {
  const { blocks, last, usage, model, isLive } = entry;
  const text = blocks
    .filter(({ type }) => type === "text")
    .map((block) => block.text)
    .join("\n\n");
  const rating = last ? actions?.ratingOf(last.id) : undefined;
  const rate = (value) => actions.rate(last.id, rating === value ? null : value);
  return html`<article class=${`message answer ${isLive ? "live" : ""}`} aria-busy=${isLive ? "true" : undefined}>
    <h2 class="hidden">Agent</h2>
    ${blocks.map((block, at) => html`<${Block} key=${block.id ?? at} block=${block} isLast=${isLive && at === blocks.length - 1} settle=${settle} />`)}
    ${isLive && (blocks.length === 0 || entry.isWaiting) ? html`<div class="thinking-dots" role="status"><span class="hidden">The agent is working</span><i></i><i></i><i></i></div>` : null}
    ${
      isLive
        ? null
        : html`<div class="message-tools">
          <${Action} icon="copy" label="Copy answer" act=${() => copyText(text)} />
          ${
            actions?.rate
              ? html`<${Action} icon="up_thumb" label="Good answer" act=${() => rate("up")} isOn=${rating === "up"} />
                <${Action} icon="down_thumb" label="Bad answer" act=${() => rate("down")} isOn=${rating === "down"} />`
              : null
          }
          ${actions?.fork ? html`<${Action} icon="fork" label="Fork from here" act=${() => actions.fork(last.id)} />` : null}
          ${actions?.rewind && !entry.isLeaf ? html`<${Action} icon="rewind" label="Rewind to here" act=${() => actions.rewind(last.id)} />` : null}
          ${usage ? html`<span class="usage" title=${`${count(usage.input)} tokens in, ${count(usage.output)} out`}>${model ?? ""} · ${count(usage.input + usage.output)} tokens</span>` : null}
        </div>`
    }
  </article>`;
}

function Action({ icon, label, act, isOn, isOff = false }) {
  return html`<button
    type="button"
    class=${`ghost icon-button small ${isOn ? "on" : ""}`}
    aria-label=${label}
    title=${label}
    aria-pressed=${isOn}
    disabled=${isOff}
    onClick=${act}
  >
    <${Icon} name=${icon} size=${15} />
  </button>`;
}

function Block({ block, isLast, settle }) {
  const { type, text } = block;
  if (type === "text") return html`<${Markdown} text=${text} />`;
  if (type === "thinking") return html`<${Thinking} text=${text} isLive=${isLast} />`;
  if (type === "tool") return html`<${Tool} tool=${block} settle=${settle} />`;
  if (type === "steer") return html`<div class="steer" dir="auto"><${Icon} name="send" size=${14} /> ${text}</div>`;
  if (type === "agent")
    return html`<p class="step-note"><${Icon} name="agents" size=${15} /> ${block.name} <span class=${`chip ${block.state}`}>${block.state}</span></p>`;
  if (type === "question" && block.state === "open")
    return html`<${Question}
      question=${block.question}
      onAnswered=${(answer) => settle(block.id, { state: "answered", answer })}
    />`;
  if (type === "question")
    return html`<p class="step-note"><${Icon} name="question" size=${15} /> ${line(block.question.prompt)} <b>${block.answer?.cancelled ? "not answered" : String(block.answer?.value)}</b></p>`;
  return html`<p class="step-note"><${Icon} name="clock" size=${15} /> ${text}</p>`;
}

function Thinking({ text, isLive }) {
  return html`<details class="thinking">
    <summary><${Icon} name="brain" size=${15} /> ${isLive ? "Thinking…" : "Thoughts"} <span class="preview" dir="auto">${line(text, 90)}</span></summary>
    <${LongText} text=${text} />
  </details>`;
}

const noteTitles = {
  compaction: "The older part was summed up for the model",
  branch_summary: "A branch was left here",
};

function Note({ entry }) {
  const title = noteTitles[entry.kind] ?? entry.kind.replaceAll("_", " ");
  if (!entry.text) return html`<p class="step-note centre">${title}</p>`;
  return html`<details class="note"><summary>${title}</summary><${Markdown} text=${entry.text} /></details>`;
}
