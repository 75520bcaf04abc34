import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { modelTestCertificate } from "./certificate.ts";
import { type Person, startGithub } from "./github-server.ts";
import { type Cleanup, tempDir } from "./temp.ts";

// A code host with repositories, over https on model.test: git's own smart HTTP server, the REST API of repositories and pull requests, and the
// sign-in of test/support/github-server.ts with tokens that expire. A token reads what its person may.

/** A repository of the code host. */
interface HostedRepo {
  readonly path: string;
  readonly isPrivate: boolean;
  /** Ids of the people with the right to read and push. */
  readonly people: readonly number[];
  size: number;
}

interface Pull {
  readonly number: number;
  readonly html_url: string;
  readonly title: string;
  readonly body: string;
  readonly head: string;
  readonly base: string;
}

/** Files by path; a text that begins with `-> ` makes a symlink. */
export type RepoFiles = Readonly<Record<string, string>>;

export async function startRepoHost(atEnd: Cleanup) {
  const signIn = await startGithub(atEnd);
  const root = tempDir(atEnd);
  const repos = new Map<string, HostedRepo>();
  const pulls: Pull[] = [];
  const tokens = new Map<string, number>();
  const refreshTokens = new Map<string, Person>();
  const revoked: string[] = [];
  const requests: { readonly path: string; readonly authorization: string }[] = [];
  let made = 0;
  const state = {
    /** Seconds for which new tokens are good. */
    expiresIn: 28_800,
    /** Refuses pull requests. */
    refusesPulls: false,
    /** Called for each request of git, before it is answered. */
    onGit: null as ((path: string) => Promise<void> | void) | null,
    /** The repository to whose URL every request of git is redirected; null for none. */
    redirectsGit: null as string | null,
    /** Called for each request for a pull request, after the code host has made it. */
    onPull: null as (() => Promise<void> | void) | null,
    /** Called for each request of the REST API, before it is answered. */
    onApi: null as (() => void) | null,
    down: false,
    /** Refuses every request for its rate, as GitHub does. */
    isLimited: false,
  };

  const server = createServer(modelTestCertificate, (request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => new Promise<void>((resolve) => server.close(() => resolve()).closeAllConnections()));
  const { port } = server.address() as AddressInfo;
  const ca = join(root, "ca.pem");
  writeFileSync(ca, modelTestCertificate.cert);

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "https://model.test");
    const { authorization = "" } = request.headers;
    requests.push({ path: `${request.method} ${request.url}`, authorization });
    const json = (body: unknown, status = 200) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (state.down) return json({}, 503);
    if (state.isLimited) {
      response.writeHead(403, { "x-ratelimit-remaining": "0" }).end('{"message":"API rate limit exceeded"}');
      return;
    }
    const git = /^\/([\w.-]+\/[\w.-]+)\.git(\/.*)$/.exec(pathname);
    if (git !== null) return serveGit(request, response, String(git[1]), String(git[2]));
    const body = await bodyOf(request);
    if (pathname === "/login/oauth/access_token") {
      const form = Object.fromEntries(new URLSearchParams(body.toString()));
      if (form.grant_type === "refresh_token") {
        const person = refreshTokens.get(form.refresh_token ?? "");
        refreshTokens.delete(form.refresh_token ?? "");
        return json(person === undefined ? { error: "bad_refresh_token" } : await tokensFor(person));
      }
      const inner = JSON.parse((await forward(request, body)).text) as { access_token?: string };
      if (inner.access_token === undefined || signIn.state.who === null) return json(inner);
      const person = signIn.state.who as Person;
      tokens.set(inner.access_token, person.id);
      return json({ ...inner, ...renewal(person) });
    }
    state.onApi?.();
    const token = authorization.replace("Bearer ", "");
    const who = tokens.get(token);
    if (request.method === "DELETE" && pathname.startsWith("/applications/")) {
      const { access_token } = JSON.parse(body.toString()) as { access_token: string };
      revoked.push(access_token);
      tokens.delete(access_token);
      response.writeHead(204).end();
      return;
    }
    const repo = /^\/repos\/([\w.-]+\/[\w.-]+)(\/pulls)?$/.exec(pathname);
    if (repo !== null || pathname.startsWith("/user/installations"))
      if (authorization !== "" && who === undefined) return json({ message: "Bad credentials" }, 401);
    if (repo !== null) {
      const name = String(repo[1]);
      const found = repos.get(name.toLowerCase());
      if (found === undefined || (found.isPrivate && !found.people.includes(who ?? 0)))
        return json({ message: "Not Found" }, 404);
      if (repo[2] === undefined) return json(viewOf(name, found, who));
      if (request.method === "GET") {
        const head = searchParams.get("head")?.split(":")[1];
        return json(pulls.filter((pull) => pull.head === head));
      }
      if (!found.people.includes(who ?? 0)) return json({ message: "Not Found" }, 404);
      const asked = JSON.parse(body.toString()) as Pull;
      if (state.refusesPulls) return json({ message: "Pull requests are off" }, 403);
      if (pulls.some(({ head }) => head === asked.head)) return json({ message: "A pull request already exists" }, 422);
      const number = pulls.length + 1;
      const pull = { ...asked, number, html_url: `https://model.test/${name}/pull/${number}` };
      pulls.push(pull);
      await state.onPull?.();
      return json(pull, 201);
    }
    if (pathname === "/user/installations")
      return json({
        installations: [{ id: 42, account: { login: "acme", type: "Organization" }, repository_selection: "selected" }],
      });
    if (pathname === "/user/installations/42/repositories")
      return json({
        repositories: [...repos]
          .filter(([, { people }]) => people.includes(who ?? 0))
          .map(([name, found]) => viewOf(name, found, who)),
      });
    const inner = await forward(request, body);
    response.writeHead(inner.status, inner.headers).end(inner.text);
  }

  function viewOf(full_name: string, { isPrivate, people, size }: HostedRepo, who: number | undefined) {
    const permissions = { pull: true, push: people.includes(who ?? 0) };
    return { full_name, private: isPrivate, archived: false, default_branch: "main", size, permissions };
  }

  function renewal(person: Person) {
    const refresh_token = `ghr_${++made}_of_the_person`;
    refreshTokens.set(refresh_token, person);
    return { expires_in: state.expiresIn, refresh_token, refresh_token_expires_in: 15_552_000 };
  }

  async function tokensFor(person: Person) {
    const access_token = `ghu_${++made}_of_the_person`;
    tokens.set(access_token, person.id);
    return { access_token, token_type: "bearer", ...renewal(person) };
  }

  function forward(request: IncomingMessage, body: Buffer) {
    return new Promise<{ status: number; headers: Record<string, string>; text: string }>((resolve, reject) => {
      const url = new URL(request.url ?? "/", signIn.url);
      const { host: _host, connection: _connection, ...headers } = request.headers;
      const sent = httpRequest(url, { method: request.method, headers }, (answered) => {
        void bodyOf(answered).then((bytes) => {
          const { location, "content-type": type } = answered.headers;
          const own = { ...(location && { location }), ...(type && { "content-type": type }) };
          resolve({ status: answered.statusCode ?? 500, headers: own, text: bytes.toString() });
        }, reject);
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  /** Lets git's own server answer, as a web server does by CGI. */
  async function serveGit(request: IncomingMessage, response: ServerResponse, name: string, rest: string) {
    const url = new URL(request.url ?? "/", "https://model.test");
    const repo = repos.get(name.toLowerCase());
    const basic = Buffer.from(request.headers.authorization?.replace(/^Basic /i, "") ?? "", "base64").toString();
    const who = tokens.get(basic.split(":")[1] ?? "");
    const isPush = url.searchParams.get("service") === "git-receive-pack" || rest === "/git-receive-pack";
    const isOpen = repo !== undefined && !repo.isPrivate && !isPush;
    if (!isOpen && who === undefined) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="code host"' }).end("who are you?");
      return;
    }
    if (repo === undefined || (!isOpen && !repo.people.includes(who ?? 0))) {
      response.writeHead(404).end("no such repository");
      return;
    }
    if (state.redirectsGit !== null && name !== state.redirectsGit) {
      response.writeHead(302, { location: `https://model.test/${state.redirectsGit}.git${rest}${url.search}` }).end();
      return;
    }
    await state.onGit?.(`${request.method} ${rest}`);
    if (response.destroyed) return;
    const backend = spawn("git", ["http-backend"], {
      env: {
        PATH: process.env.PATH ?? "",
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: `/${name.toLowerCase()}.git${rest}`,
        QUERY_STRING: url.search.slice(1),
        REQUEST_METHOD: request.method ?? "GET",
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
        REMOTE_USER: String(who ?? ""),
        ...(request.headers["content-length"] !== undefined && {
          CONTENT_LENGTH: request.headers["content-length"],
        }),
      },
      stdio: ["pipe", "pipe", "ignore"],
    });
    backend.stdin.on("error", () => {});
    request.pipe(backend.stdin);
    response.on("close", () => backend.kill());
    let head = Buffer.alloc(0);
    let isOver = false;
    backend.stdout.on("data", (part: Buffer) => {
      if (isOver) return void response.write(part);
      head = Buffer.concat([head, part]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      isOver = true;
      const lines = head.subarray(0, end).toString().split("\r\n");
      const fields = lines.map((line) => line.split(/:\s*/, 2) as [string, string]);
      const status = Number(fields.find(([field]) => field.toLowerCase() === "status")?.[1]?.split(" ")[0] ?? 200);
      response.writeHead(status, Object.fromEntries(fields.filter(([field]) => field.toLowerCase() !== "status")));
      response.write(head.subarray(end + 4));
    });
    backend.on("close", () => response.end());
  }

  function git(path: string, ...args: string[]): string {
    return execFileSync(
      "git",
      ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", ...args],
      {
        cwd: path,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      },
    ).trim();
  }

  return {
    ...{ signIn, state, pulls, revoked, requests, tokens, ca, port },
    /** Settings of a server that works with this code host. */
    settings: {
      ...signIn.settings,
      SVC_GITHUB_URL: "https://model.test",
      SVC_GITHUB_API_URL: "https://model.test",
      SVC_REPO_HOSTS: "model.test",
      SVC_EGRESS_CA_FILE: ca,
      SVC_TEST_RESOLVE: JSON.stringify({ "model.test": `127.0.0.1:${port}` }),
    },
    /** Makes a repository with one commit; without files it is empty. */
    add(name: string, files: RepoFiles | null, more: { people?: readonly number[]; isPrivate?: boolean } = {}): string {
      const path = join(root, `${name.toLowerCase()}.git`);
      mkdirSync(path, { recursive: true });
      git(path, "init", "--quiet", "--bare", "--initial-branch=main");
      git(path, "config", "http.receivepack", "true");
      repos.set(name.toLowerCase(), { path, isPrivate: more.isPrivate ?? false, people: more.people ?? [], size: 1 });
      if (files === null) return path;
      const work = `${path}.work`;
      mkdirSync(work, { recursive: true });
      git(work, "init", "--quiet", "--initial-branch=main");
      for (const [file, text] of Object.entries(files)) {
        mkdirSync(dirname(join(work, file)), { recursive: true });
        if (text.startsWith("-> ")) symlinkSync(text.slice(3), join(work, file));
        else writeFileSync(join(work, file), text);
      }
      git(work, "add", "--all", "--force");
      git(work, "commit", "--quiet", "--message", "first");
      git(work, "push", "--quiet", path, "main");
      return path;
    },
    /** Makes a repository with one commit of many small files. */
    addMany(name: string, count: number): void {
      const paths = Array.from({ length: count }, (_, at) => `M 100644 :1 d${at % 100}/f${at}\n`);
      const commit = "commit refs/heads/main\ncommitter t <t@t> 0 +0000\ndata 1\nm\n";
      execFileSync("git", ["fast-import", "--quiet", "--force"], {
        cwd: this.add(name, null),
        input: `blob\nmark :1\ndata 2\nx\n\n${commit}${paths.join("")}\n`,
      });
    },
    repo: (name: string) => repos.get(name.toLowerCase()) as HostedRepo,
    /** Runs git in a repository of the code host. */
    git: (name: string, ...args: string[]) => git((repos.get(name.toLowerCase()) as HostedRepo).path, ...args),
    /** A token that reads and pushes what a person may. */
    tokenFor(id: number): string {
      const token = `ghp_${++made}_for_the_agent_0123456789`;
      tokens.set(token, id);
      return token;
    },
  };
}

async function bodyOf(stream: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
