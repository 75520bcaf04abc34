import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, compact, duration, moment, money, suffixOf } from "../../core/format.js";
import { handOver } from "../../core/hand-over.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { useResource } from "../../core/resource.js";
import { go, place, to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Markdown } from "../../parts/markdown.js";
import { Facts, Page } from "../../parts/page.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";
import { Compare } from "./compare.js";
import { Request } from "./request.js";
import { TimeAxis } from "./time-axis.js";
import { readTimeline, spentOf } from "./timeline.js";

/** One durable run on a time axis, and what the model was sent. */
export function Screen() {
  const { parts, query } = place.value;
  if (parts[0] === undefined)
    return html`<${Page} title="Run"><${Empty} icon="run" title="No run chosen"><a href=${to("runs")}>Choose one of the runs</a><//><//>`;
  return html`<${Run} key=${parts[0]} id=${parts[0]} other=${query.get("with")} />`;
}

function Run({ id, other }) {
  const run = useResource("GET /runs/{run_id}", { run_id: id });
  const [timeline, setTimeline] = useState({ items: null, error: null });
  const [request, setRequest] = useState(null);
  const [spent, setSpent] = useState(null);
  const read = () => {
    readTimeline(id).then(
      (items) => setTimeline({ items, error: null }),
      (error) => setTimeline({ items: null, error }),
    );
  };
  useEffect(read, [id]);
  useEffect(
    () =>
      onNews(({ kind, run_id }) => {
        if (kind !== "reset" && run_id !== id) return;
        run.reload();
        read();
      }),
    [id],
  );
  useEffect(() => {
    if (run.data) spentOf(run.data).then(setSpent, () => setSpent(null));
  }, [run.data]);
  if (run.error) return html`<${Page} title="Run"><${Failed} error=${run.error} retry=${run.reload} /><//>`;
  if (run.data === null) return html`<${Page} title="Run"><${Loading} label="Reading the run" /><//>`;
  const {
    status,
    manifest_id,
    thread_id,
    principal_subj,
    accepted_at,
    begun_at,
    ended_at,
    attempts,
    error,
    final,
    waiting_on,
  } = run.data;
  const suffix = thread_id === null ? null : suffixOf(thread_id);
  const sendAgain = async () => {
    const first = timeline.items.find(({ kind }) => kind === "input");
    const { transcript } = await call("GET /chat/sessions/{thread_id}", { thread_id: suffix, branches: "all" });
    const event = transcript.find(({ seq }) => seq === first?.seq);
    if (!event) throw new Error("The run's first message is gone.");
    if (event.parentId === null) handOver({ text: event.content });
    else {
      const copy = `${suffix.slice(0, 150)}-again-${Date.now().toString(36)}`;
      await call("POST /chat/fork", { thread_id: suffix, new_thread_id: copy, from_event_id: event.parentId });
      handOver({ text: event.content });
      return go(to("chat", [copy]));
    }
    go(to("chat", [], { manifest: manifest_id }));
  };
  return html`<${Page}
    title=${html`Run of ${manifest_id}`}
    tools=${html`
      <span class=${`chip ${status}`}>${waiting_on ? `waiting for ${waiting_on.kind}` : status}</span>
      ${suffix ? html`<a class="button" href=${to("chat", [suffix])}><${Icon} name="chat" size=${16} /> Thread</a>` : null}
      ${suffix && may("POST /chat/fork") && timeline.items ? html`<button type="button" onClick=${() => attempt(sendAgain)}><${Icon} name="fork" size=${16} /> Fork and send again</button>` : null}
    `}
  >
    <div class="scroll stack" tabindex="0" role="region" aria-label="Run">
      <section class="panel" aria-label="Facts">
        <${Facts}
          facts=${[
            ["Accepted", html`<span title=${moment(accepted_at)}>${ago(accepted_at)}</span>`],
            ["Waited to begin", begun_at === null ? "" : duration(begun_at - accepted_at)],
            ["Took", begun_at === null ? "" : duration((ended_at ?? Date.now()) - begun_at)],
            ["Model calls", timeline.items?.filter(({ kind }) => kind === "model_call").length],
            ["Tool calls", timeline.items?.filter(({ kind }) => kind === "tool_call").length],
            ["Tokens", spent ? compact(spent.tokens) : ""],
            ["Cost", spent ? money(spent.cost) : ""],
            ["For", principal_subj],
            ["Failures of this step", attempts || ""],
            ["Id", html`<code>${id}</code>`],
          ]}
        />
        ${error ? html`<p class="banner bad" role="alert"><span>${error}</span></p>` : null}
      </section>
      <section class="panel" aria-label="Time axis">
        <h2>Time axis</h2>
        ${
          timeline.error
            ? html`<${Failed} error=${timeline.error} retry=${read} />`
            : timeline.items === null
              ? html`<${Loading} label="Reading the steps" />`
              : html`<${TimeAxis} items=${timeline.items} end=${ended_at} choose=${setRequest} chosen=${request} />`
        }
      </section>
      ${request !== null ? html`<${Request} key=${request} id=${id} n=${request} choose=${setRequest} />` : null}
      ${final ? html`<section class="panel" aria-label="Answer"><h2>Answer</h2><${Markdown} text=${final.content} /></section>` : null}
      <${Compare} run=${run.data} items=${timeline.items} other=${other} />
    </div>
  <//>`;
}
