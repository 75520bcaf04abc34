import { Type } from "../../bus/type.ts";
import type { StreamEvent } from "../stream-event.ts";
import { nullable } from "./common.ts";
import { runIdExample } from "./example-values.ts";

// Schemas of the frames of GET /events.

const Text = Type.String();
const kindOf = (kind: string) => ({ kind: Type.Literal(kind) });

const RunStatusNews = Type.Object({
  ...kindOf("run_status"),
  ...{ run_id: Text, thread_id: nullable(Text), manifest: Text },
  status: Type.Enum(["accepted", "running", "waiting", "completed", "failed", "expired", "dead"]),
  waiting_on: nullable(Type.String({ description: "The kind of the wait of a waiting run." })),
});
const ApprovalNews = Type.Object({
  ...kindOf("approval"),
  ...{ approval_id: Text, thread_id: Text, status: Type.Enum(["pending", "approved", "denied", "closed"]) },
});
const ThreadNews = Type.Object({
  ...kindOf("thread"),
  ...{ thread_id: Text, change: Type.Enum(["updated", "deleted"]) },
});
const ManifestNews = Type.Object({ ...kindOf("manifest"), name: Text });
const WorkflowRunNews = Type.Object({
  ...kindOf("workflow_run"),
  ...{ run_id: Text, workflow_id: Text },
  status: Type.Enum(["queued", "running", "waiting", "cancelling", "cancelled", "succeeded", "failed"]),
  version: Type.Integer(),
});
const BudgetNews = Type.Object({ ...kindOf("budget"), budget: Text });

/** Returns the declaration of a frame with its data schema and an example of its data. */
function declared(
  name: string,
  component: string,
  description: string,
  data: ReturnType<typeof Type.Object>,
  example: object,
) {
  const schema = Type.Object(
    { event: Type.Literal(name), type: Type.Literal(name), data, text: Text },
    { description, examples: [{ event: name, type: name, data: example, text: "" }] },
  );
  return { component, schema, line: null } satisfies StreamEvent;
}

/** The frames of GET /events. */
export const newsEvents: readonly StreamEvent[] = [
  declared(
    "reset",
    "ResetFrame",
    "The client has missed news, or has just connected without a cursor: it reads its lists again.",
    Type.Object({}),
    {},
  ),
  declared(
    "news",
    "NewsFrame",
    "The latest state of objects that changed.",
    Type.Object({
      news: Type.Array(
        Type.Union([RunStatusNews, ApprovalNews, ThreadNews, WorkflowRunNews, ManifestNews, BudgetNews]),
      ),
    }),
    {
      news: [
        {
          ...{ kind: "run_status", run_id: runIdExample, thread_id: "default:tour", manifest: "quick" },
          ...{ status: "waiting", waiting_on: "approval" },
        },
      ],
    },
  ),
];
