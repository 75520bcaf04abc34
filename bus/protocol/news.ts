// News of a tenant: short facts without content, for clients that show lists. Actors publish them on the tenant's topic, and only if a client
// listens.

/** A fact about an object of the tenant. Later news of the same object replace earlier ones. */
export type News =
  | {
      readonly kind: "run_status";
      readonly run_id: string;
      readonly thread_id: string | null;
      readonly manifest: string;
      readonly status: string;
      /** The kind of the wait of a waiting run. */
      readonly waiting_on: string | null;
    }
  | {
      readonly kind: "approval";
      readonly approval_id: string;
      readonly thread_id: string;
      readonly status: "pending" | "approved" | "denied" | "closed";
    }
  | { readonly kind: "thread"; readonly thread_id: string; readonly change: "updated" | "deleted" }
  | {
      readonly kind: "workflow_run";
      readonly run_id: string;
      readonly workflow_id: string;
      readonly status: string;
      readonly version: number;
    }
  | { readonly kind: "manifest"; readonly name: string }
  | { readonly kind: "budget"; readonly budget: string };

/** The kinds of news. */
export type NewsKind = News["kind"];

/** Returns the topic of a tenant's news. */
export function newsTopic(tenantId: string): string {
  return `news/${tenantId}`;
}

/** The end of the bus on which news are published. */
interface Publisher {
  hasSubscribers(topic: string): boolean;
  publish(topic: string, text: string): void;
}

/** Publishes news to the clients of a tenant. They are made only if one listens. */
export function tellNews(bus: Publisher, tenantId: string, news: () => News): void {
  const topic = newsTopic(tenantId);
  if (bus.hasSubscribers(topic)) bus.publish(topic, `${JSON.stringify(news())}\n`);
}

/** Returns the news in a text of the topic. */
export function readNews(text: string): News[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as News);
}

/** Returns the identity of the object that news are about. */
export function subjectOf(news: News): string {
  switch (news.kind) {
    case "run_status":
      return `run_status ${news.run_id}`;
    case "approval":
      return `approval ${news.approval_id}`;
    case "thread":
      return `thread ${news.thread_id}`;
    case "manifest":
      return `manifest ${news.name}`;
    case "workflow_run":
      return `workflow_run ${news.run_id}`;
    case "budget":
      return `budget ${news.budget}`;
  }
}
