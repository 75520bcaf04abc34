import { SvcError } from "../../bus/errors.ts";
import type { Published, PublishFacts, PublishOrder, PublishSurvey, RepoAnswer } from "../../bus/protocol/workspace.ts";
import { GitError } from "../../governance/repos/git.ts";
import { type Publication, publishOp } from "../../storage/tables/repo-checkouts.ts";
import { ToolRefusal } from "../tools/workspace/refusal.ts";
import type { CheckoutKey, Checkouts, OpenCheckout } from "./checkouts.ts";
import { tidyObjects } from "./objects.ts";
import { changesBetween, diffHead, diffStat, treeOf } from "./work-tree.ts";

/** The ref of the commit that was last published. */
const publishedRef = "refs/svc/published";
const megabyte = 1024 * 1024;
/** Paths of files that give a workflow of the code host the rights of the repository. */
const workflowPath = /^\.github\/workflows(\/|$)/i;
const branchPattern =
  /^(?!-)(?!.*(?:\.\.|\/\/|@\{|\.lock(?:\/|$)|\.\/|\/\.))[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}(?<![./])$/;

/** Returns what a publication would contain now. */
export async function surveyOf(
  checkouts: Checkouts,
  key: CheckoutKey,
  asked: PublishSurvey,
): Promise<RepoAnswer<PublishFacts>> {
  return answered(checkouts, key, async (open) => {
    const facts = await factsOf(checkouts, open, asked);
    if (!facts.ok) return facts;
    const { base_commit, tree } = facts.value;
    const stat = await diffStat(checkouts.git, open.folders, base_commit, tree);
    const head = await diffHead(checkouts.git, open.folders, base_commit, tree);
    return { ok: true, value: { ...facts.value, preview: `${stat}\n\n${head}` } };
  });
}

/**
 * Commits the files, pushes them as a new branch and opens a pull request (decision 254). A repeated call with the same key completes what
 * the first has done.
 */
export async function publish(
  checkouts: Checkouts,
  key: CheckoutKey,
  order: PublishOrder,
  secret: (reference: string) => Promise<string>,
): Promise<RepoAnswer<Published>> {
  if (!branchPattern.test(order.branch)) return refused("invalid_arguments", `${order.branch} is no name of a branch`);
  return answered(checkouts, key, async (open) => {
    const { deps } = checkouts;
    const { row } = open;
    if (order.branch === order.base || order.branch === row.base)
      return refused("permission_denied", "commits are published on a new branch only");
    const made = await commitOf(checkouts, key, open, order);
    if (!made.ok) return made;
    let token: string | null;
    try {
      token = (await deps.connections.tokenOf(order.principal))?.token ?? (await secret(order.auth));
    } catch (error) {
      return refused("permission_denied", `there is no token for the code host: ${SvcError.from(error).code}`);
    }
    const pushed = await push(checkouts, key, open, made.value, token);
    if (!pushed.ok) return pushed;
    const opened = await pullRequest(checkouts, open, order, token);
    if (!opened.ok) return opened;
    const { git } = checkouts;
    const ref = `refs/heads/${order.branch}`;
    await git.run(open.folders, ["update-ref", ref, made.value.commit]);
    await git.run(open.folders, ["symbolic-ref", "HEAD", ref]);
    const published = { branch: order.branch, commit: made.value.commit, ...opened.value };
    deps.audit.record(key.tenantId, {
      ...{ event_type: "commits_published", status: "ok", manifest_id: order.manifest },
      principal_subj: order.principal.sub,
      payload: { thread_id: `${key.tenantId}:${key.thread}`, repo: row.repo, base: order.base, ...published },
    });
    return { ok: true, value: published };
  });
}

async function factsOf(
  { git }: Checkouts,
  { row, folders }: OpenCheckout,
  { repo, allow_workflows }: PublishSurvey,
): Promise<RepoAnswer<Omit<PublishFacts, "preview">>> {
  if (row.root !== row.thread)
    return refused("permission_denied", "the work of a task is published by the run that has started it");
  if (repo !== null && repo.toLowerCase() !== row.repo.toLowerCase())
    return refused(
      "permission_denied",
      `this agent publishes to ${repo} only, and the conversation works in ${row.repo}`,
    );
  const base_commit = await git.text(folders, ["rev-parse", "HEAD^{commit}"]);
  const tree = await treeOf(git, folders);
  const changes = await changesBetween(git, folders, base_commit, tree);
  if (changes.size === 0) return refused("invalid_arguments", "there is nothing to publish: no file has changed");
  const workflow = allow_workflows ? undefined : [...changes.keys()].find((path) => workflowPath.test(path));
  if (workflow !== undefined)
    return refused("permission_denied", `${workflow} is a workflow of the code host, which this agent may not change`);
  return { ok: true, value: { repo: row.repo, base_commit, tree } };
}

/** Returns the commit to push: that of an earlier call with the same key or the same content, or a new one. */
async function commitOf(
  checkouts: Checkouts,
  { tenantId }: CheckoutKey,
  open: OpenCheckout,
  order: PublishOrder,
): Promise<RepoAnswer<Publication>> {
  const { git, deps } = checkouts;
  const { folders, row } = open;
  const { published } = row;
  if (published?.key === order.key) return { ok: true, value: published };
  if (order.finds) return refused("not_found", "the call has begun nothing");
  const facts = await factsOf(checkouts, open, order);
  if (!facts.ok) return facts;
  const { base_commit, tree } = facts.value;
  // A person has approved these files and no others.
  if (tree !== order.tree || base_commit !== order.base_commit)
    return refused("permission_denied", "the files have changed since the call was made; call the tool again");
  if (published?.branch === order.branch && (await hasContent(checkouts, open, published.commit, order)))
    return { ok: true, value: published };
  const message = `${order.title}\n\n${order.body}`.trim();
  const author = { name: nameOf(order.principal.sub), email: "svc@localhost", at: deps.env.now() };
  const commit = await git.text(folders, ["commit-tree", tree, "-p", base_commit], { input: message, author });
  // A later call needs the commit, even if this one ends before the branch names it.
  await git.run(folders, ["update-ref", publishedRef, commit]);
  const value = { key: order.key, branch: order.branch, commit };
  const own = deps.store.tenant(tenantId);
  await own.write([publishOp(own, row, value)]);
  return { ok: true, value };
}

async function hasContent(
  { git }: Checkouts,
  { folders }: OpenCheckout,
  commit: string,
  { tree, base_commit }: PublishOrder,
): Promise<boolean> {
  const found = await git
    .text(folders, ["rev-parse", `${commit}^{tree}`, `${commit}^1`])
    .then((text) => text.split("\n"))
    .catch(() => []);
  return found[0] === tree && found[1] === base_commit;
}

/** Pushes a commit as a new branch. No branch that exists is changed. */
async function push(
  checkouts: Checkouts,
  { tenantId }: CheckoutKey,
  { row, folders }: OpenCheckout,
  { branch, commit }: Publication,
  token: string,
): Promise<RepoAnswer<null>> {
  const { git, deps } = checkouts;
  const { repoCloneMaxMb, repoCloneTimeoutSeconds } = deps.settings;
  const ref = `refs/heads/${branch}`;
  const url = checkouts.urlOf(row.repo);
  const timeoutMs = repoCloneTimeoutSeconds * 1_000;
  return checkouts.withRemote(tenantId, token, repoCloneMaxMb * megabyte, async (remote) => {
    const bare = { ...folders, workTree: null };
    try {
      // With an empty expected value git pushes only if the branch does not exist.
      const lease = `--force-with-lease=${ref}:`;
      await git.run(bare, ["push", "--quiet", "--no-verify", lease, "--", url, `${commit}:${ref}`], {
        remote,
        timeoutMs,
      });
      return { ok: true, value: null };
    } catch (error) {
      if (!(error instanceof GitError)) throw error;
      const there = await git.text(bare, ["ls-remote", "--", url, ref], { remote, timeoutMs }).catch(() => null);
      if (there?.startsWith(commit)) return { ok: true, value: null };
      if (there !== null && there !== "")
        return refused("invalid_arguments", `the branch ${branch} exists already; choose another name`);
      deps.log.warn({ err: error, repo: row.repo }, "a push failed");
      return refused("provider_error", "the code host did not accept the push");
    }
  });
}

/** Opens the pull request of a branch, or returns the one that is open. */
async function pullRequest(
  { deps: { repoApi } }: Checkouts,
  { row: { repo } }: OpenCheckout,
  { branch, base, title, body, draft }: PublishOrder,
  token: string,
): Promise<RepoAnswer<{ readonly url: string; readonly number: number }>> {
  const json = { title, body, head: branch, base, ...(draft && { draft }) };
  const made = await repoApi.ask({ method: "POST", path: `/repos/${repo}/pulls`, token, json });
  const found = made.status === 201 ? made.body : await openOne();
  const { html_url: url, number } = found ?? {};
  if (typeof url === "string" && typeof number === "number") return { ok: true, value: { url, number } };
  const why = typeof made.body.message === "string" ? made.body.message.slice(0, 300) : `status ${made.status}`;
  return refused("provider_error", `the branch ${branch} is pushed, but the pull request was refused: ${why}`);

  async function openOne(): Promise<Readonly<Record<string, unknown>> | undefined> {
    if (made.status !== 422) return undefined;
    const head = `${repo.split("/")[0]}:${branch}`;
    const query = new URLSearchParams({ head, base, state: "open", per_page: "1" });
    const { list } = await repoApi.ask({ path: `/repos/${repo}/pulls?${query}`, token });
    return list[0] as Readonly<Record<string, unknown>> | undefined;
  }
}

/** Runs work on the checkout of a thread, alone. Refusals and failures of git become words for the model. */
export async function answered<T>(
  checkouts: Checkouts,
  key: CheckoutKey,
  work: (open: OpenCheckout) => Promise<RepoAnswer<T>>,
): Promise<RepoAnswer<T>> {
  try {
    const { folders, row } = await checkouts.of(key);
    if (row.state !== "ready" && row.state !== "working")
      return refused("not_found", `the repository of this conversation is not ready: it is ${row.state}`);
    // The row may have changed while earlier work was done.
    return await checkouts.alone(folders, async () => {
      const answer = await work(await checkouts.of(key));
      await tidyObjects(checkouts.git, folders).catch((err: unknown) =>
        checkouts.deps.log.warn({ err, thread_id: `${key.tenantId}:${key.thread}` }, "a checkout could not be tidied"),
      );
      return answer;
    });
  } catch (error) {
    if (error instanceof SvcError && error.code === "no_repository")
      return refused("not_found", "this conversation has no repository");
    if (error instanceof SvcError && error.code === "github_unavailable")
      return refused("provider_error", "the code host does not answer; try again");
    if (error instanceof ToolRefusal) return refused("provider_error", error.message);
    if (!(error instanceof GitError)) throw error;
    checkouts.deps.log.warn({ err: error, thread_id: `${key.tenantId}:${key.thread}` }, "git failed");
    return refused("provider_error", "git could not do this with the files");
  }
}

/** Returns a refusal in words for the model. */
export function refused(
  code: Extract<RepoAnswer<unknown>, { ok: false }>["code"],
  text: string,
): Extract<RepoAnswer<never>, { ok: false }> {
  return { ok: false, code, text };
}

/** Returns a name as git takes it. */
function nameOf(sub: string): string {
  return sub.replace(/[\p{Cc}<>\n]/gu, "").slice(0, 100) || "svc";
}
