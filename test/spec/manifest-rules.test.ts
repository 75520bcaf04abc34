import assert from "node:assert/strict";
import { test } from "node:test";
import { parseManifest } from "../../manifests/parse/parse.ts";
import { agent, compileProblems, compileSpec, parseProblems, problemsOf } from "../manifests/support.ts";

const multi = ["router", "parallel", "groupchat"];

/** Asserts the problems of each spec; an empty list means that the manifest is valid. */
function holds(table: readonly (readonly [object, readonly string[]])[]): void {
  for (const [spec, problems] of table) assert.deepEqual(parseProblems(agent(spec)), problems, JSON.stringify(spec));
}

test("PAT-010 multi-agent patterns require sub_agents", () => {
  for (const pattern of multi)
    holds([
      [{ pattern }, ["missing spec.sub_agents"]],
      [{ pattern, sub_agents: [] }, ["missing spec.sub_agents"]],
      [{ pattern, sub_agents: ["y"] }, []],
    ]);
  for (const pattern of ["react", "deep", "reflect", "plan_execute"])
    holds([[{ pattern, sub_agents: ["y"] }, ["conflict spec.sub_agents"]]]);
});

test("PAT-011 multi-agent patterns reject peers, containers, queues, sandboxes, browser_tools", () => {
  const lists = {
    peers: [{ name: "a", url: "https://a.example" }],
    containers: [{ name: "a", image: "i" }],
    queues: [{ name: "a", queue_binding: "b" }],
    sandboxes: [{ name: "a", binding: "b" }],
    browser_tools: [{ name: "a", binding: "b" }],
  };

  for (const [field, list] of Object.entries(lists)) {
    holds([[{ [field]: list }, []]]);
    for (const pattern of multi) holds([[{ pattern, sub_agents: ["y"], [field]: list }, [`conflict spec.${field}`]]]);
  }
});

test("PAT-015 delegation and sub_agents on one manifest are refused", () => {
  const delegation = { agents: [{ name: "y" }] };

  holds([
    [{ delegation }, []],
    [{ pattern: "router", sub_agents: ["y"], delegation }, ["conflict spec.delegation"]],
  ]);
});

test("a manifest cannot be its own sub-agent", () => {
  holds([[{ pattern: "router", sub_agents: ["y", "x"] }, ["conflict spec.sub_agents.1"]]]);
});

test("SPEC-019 confidence_escalation is for react and deep only", () => {
  const model = { confidence_escalation: { enabled: true, escalate_to: "large" } };

  for (const pattern of ["react", "deep"]) holds([[{ pattern, model }, []]]);
  for (const pattern of ["reflect", "plan_execute"])
    holds([[{ pattern, model }, ["conflict spec.model.confidence_escalation"]]]);
  for (const pattern of multi)
    holds([[{ pattern, sub_agents: ["y"], model }, ["conflict spec.model.confidence_escalation"]]]);
});

test("a router has no tools of its own: the agent that answers has its own", () => {
  for (const pattern of ["parallel", "groupchat"]) holds([[{ pattern, sub_agents: ["y"], tools: ["calculator"] }, []]]);
  holds([[{ pattern: "router", sub_agents: ["y"], tools: ["calculator"] }, ["conflict spec.tools"]]]);
});

test("ERR-014 invalid keys, fields and combinations are 422", () => {
  const styles = { styles: [{ name: "short", prompt: "Be short." }] };
  const browser_tools = [{ name: "b", binding: "b" }];
  const escalation = { confidence_escalation: { enabled: true, escalate_to: "large" } };

  holds([
    [{ no_such_key: 1 }, ["extra_forbidden spec.no_such_key"]],
    [{ recursion_limit: "ten" }, ["type_error spec.recursion_limit"]],
    [{ pattern: "router", sub_agents: ["y"], output_styles: styles }, ["conflict spec.output_styles"]],
    [{ browser_tools, network: { allow_hosts: ["a.example"] } }, ["conflict spec.browser_tools"]],
    [{ pattern: "router", sub_agents: ["y"], model: escalation }, ["conflict spec.model.confidence_escalation"]],
  ]);
  for (const pattern of ["react", "deep"]) holds([[{ pattern, output_styles: styles }, []]]);
  for (const pattern of ["reflect", "plan_execute"])
    holds([[{ pattern, output_styles: styles }, ["conflict spec.output_styles"]]]);
});

test("SPEC-039 network.credentials need allow_hosts", () => {
  holds([
    [{ network: { credentials: ["c"] } }, ["conflict spec.network.credentials"]],
    [{ network: { credentials: ["c"], allow_hosts: [] } }, ["conflict spec.network.credentials"]],
    [{ network: { credentials: ["c"], allow_hosts: ["a.example"] } }, []],
    [{ network: { credentials: [], allow_hosts: [] } }, []],
  ]);
});

test("SPEC-040 allow_hosts entries are an ASCII host, *.host or IP address; *.x excludes x", () => {
  const allow = (...allow_hosts: string[]) => ({ network: { allow_hosts } });
  const bad = ["https://a.example", "a.example:443", "a.example/x", "bücher.example", "*", "a.*.example", "*.1.2.3.4"];

  holds([[allow("a.example", "*.a.example", "10.0.0.1", "2001:db8::1", "xn--bcher-kva.example"), []]]);
  for (const entry of bad) holds([[allow("a.example", entry), ["pattern spec.network.allow_hosts.1"]]]);
  const peers = (url: string) => [{ name: "p", url }];
  holds([
    [{ ...allow("*.x.example"), peers: peers("https://a.x.example") }, []],
    [{ ...allow("*.x.example"), peers: peers("https://x.example") }, ["conflict spec.peers.0.url"]],
  ]);
});

test("GOV-003 browser_tools cannot be combined with spec.network", () => {
  const browser_tools = [{ name: "b", binding: "b" }];

  holds([
    [{ browser_tools }, []],
    [{ browser_tools, network: { allow_hosts: null } }, []],
    [{ browser_tools, network: { allow_hosts: [] } }, ["conflict spec.browser_tools"]],
    [{ browser_tools, network: { allow_hosts: ["a.example"] } }, ["conflict spec.browser_tools"]],
  ]);
});

test("GOV-004 URLs that the manifest names must be on allow_hosts", () => {
  const specs = (host: string) => ({
    "spec.mcp_servers.0.url": { mcp_servers: [{ name: "a", url: `https://${host}/mcp` }] },
    "spec.peers.0.url": { peers: [{ name: "a", url: `https://${host}` }] },
    "spec.containers.0.gateway_url": { containers: [{ name: "a", image: "i", gateway_url: `http://${host}:9` }] },
    "spec.http_tools.0.path_prefix": { http_tools: [{ name: "a", path_prefix: `https://${host}/v1/` }] },
  });

  for (const [path, spec] of Object.entries(specs("other.example"))) {
    holds([
      [{ ...spec, network: { allow_hosts: ["a.example"] } }, [`conflict ${path}`]],
      [{ ...spec, network: { allow_hosts: [] } }, [`conflict ${path}`]],
      [{ ...spec, network: { allow_hosts: null } }, []],
    ]);
  }
  for (const spec of Object.values(specs("a.example")))
    holds([[{ ...spec, network: { allow_hosts: ["a.example"] } }, []]]);
  for (const [path, spec] of Object.entries(specs("a b"))) holds([[spec, [`pattern ${path}`]]]);
  holds([[{ peers: [{ name: "a", url: "file:///etc/passwd" }] }, ["pattern spec.peers.0.url"]]]);
});

test("MCP servers have a url for http and sse, and a command for stdio", () => {
  const server = (fields: object) => ({ mcp_servers: [{ name: "m", ...fields }] });

  holds([
    [server({}), ["missing spec.mcp_servers.0.url"]],
    [server({ transport: "http" }), ["missing spec.mcp_servers.0.url"]],
    [server({ transport: "stdio" }), ["missing spec.mcp_servers.0.command"]],
    [server({ transport: "stdio", command: "x" }), []],
    [server({ transport: "stdio", command: "x", url: "https://a.example" }), ["conflict spec.mcp_servers.0.url"]],
    [server({ url: "https://a.example", command: "x" }), ["conflict spec.mcp_servers.0.command"]],
    [server({ url: "https://a.example", args: ["x"] }), ["conflict spec.mcp_servers.0.args"]],
    [server({ url: "https://a.example", env: { A: "b" } }), ["conflict spec.mcp_servers.0.env"]],
    [server({ url: "https://a.example", cwd: "/srv" }), ["conflict spec.mcp_servers.0.cwd"]],
    [server({ transport: "stdio", command: "x", auth: "secret:A" }), ["conflict spec.mcp_servers.0.auth"]],
    [server({ transport: "stdio", command: "x", cwd: "/srv/a" }), []],
    ...["srv", "/srv/../etc", "/srv/./a"].map(
      (cwd) => [server({ transport: "stdio", command: "x", cwd }), ["pattern spec.mcp_servers.0.cwd"]] as const,
    ),
    [server({ transport: "stdio", command: "x", env: { "A B": "c" } }), ["pattern spec.mcp_servers.0.env"]],
    ...["PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "SVC_JOB"].map(
      (name) =>
        [
          server({ transport: "stdio", command: "x", env: { [name]: "c" } }),
          ["conflict spec.mcp_servers.0.env"],
        ] as const,
    ),
  ]);
});

test("SPEC-045 personal_skills needs skills_declared_only off; write needs skill_authoring", () => {
  holds([
    [{ personal_skills: "read" }, []],
    [{ personal_skills: "read", skills_declared_only: true }, ["conflict spec.personal_skills"]],
    [{ personal_skills: "off", skills_declared_only: true }, []],
    [{ personal_skills: "write" }, ["conflict spec.personal_skills"]],
    [{ personal_skills: "write", skill_authoring: { enabled: true } }, []],
    [{ personal_skills: "always" }, ["enum spec.personal_skills"]],
  ]);
});

test("SPEC-047 publishing skills needs unconditional approval of create_skill and update_skill", () => {
  const publish = (...approvals: object[]) => ({ skill_authoring: { enabled: true, mode: "publish" }, approvals });
  const refused = ["conflict spec.skill_authoring.mode"];

  holds([
    [publish(), refused],
    [publish({ id: "a", tools: ["create_skill"] }), refused],
    [publish({ id: "a", tools: ["create_skill"] }, { id: "b", tools: ["update_skill"], when_args: ["name"] }), refused],
    [publish({ id: "a", tools: ["create_skill", "update_skill"] }), []],
    [publish({ id: "a", tools: ["*_skill"] }), []],
    // The last matching rule decides, and an exact name beats a glob.
    [publish({ id: "a", tools: ["*_skill"] }, { id: "b", tools: ["update_*"], when_args: ["name"] }), refused],
    [publish({ id: "a", tools: ["update_*"], when_args: ["name"] }, { id: "b", tools: ["*_skill"] }), []],
    [publish({ id: "a", tools: ["update_skill"], when_args: ["name"] }, { id: "b", tools: ["*_skill"] }), refused],
    [publish({ id: "a", tools: ["update_skill", "create_skill"] }, { id: "b", tools: ["*"], when_args: ["name"] }), []],
  ]);
});

test("SPEC-061 skill_suggestion is for react and deep and needs decider.id", () => {
  const skill_suggestion = { enabled: true };
  const decider = { id: "clef" };

  holds([
    [{ skill_suggestion }, ["conflict spec.skill_suggestion.enabled"]],
    [{ skill_suggestion, decider }, []],
    [{ skill_suggestion, decider, pattern: "deep" }, []],
    [{ skill_suggestion, decider, pattern: "reflect" }, ["conflict spec.skill_suggestion"]],
    [{ skill_suggestion: { shortlist: 11 } }, ["out_of_range spec.skill_suggestion.shortlist"]],
    [{ skill_suggestion: { shortlist: 0 } }, ["out_of_range spec.skill_suggestion.shortlist"]],
    [
      { skill_suggestion: { min_gate: 1.1, min_fit: -0.1 } },
      ["out_of_range spec.skill_suggestion.min_gate", "out_of_range spec.skill_suggestion.min_fit"],
    ],
  ]);
});

test("every decider flag needs decider.id and the fields that it decides on", () => {
  const decider = { id: "clef" };
  const escalation = (fields: object) => ({ model: { confidence_escalation: { decider: true, ...fields } } });
  const judge = { name: "j", criteria: "c", decider: true };

  holds([
    [{ reflect: { decider: true } }, ["conflict spec.reflect.decider"]],
    [{ reflect: { decider: true }, decider }, []],
    [{ content_screening: { decider: true } }, ["conflict spec.content_screening.decider"]],
    [{ content_screening: { decider: true }, decider }, []],
    [{ guardrails: { judges: [judge] } }, ["conflict spec.guardrails.judges.0.decider"]],
    [{ guardrails: { judges: [judge] }, decider }, []],
    [{ tools_retrieval: { enabled: true, decider: true } }, ["conflict spec.tools_retrieval.decider"]],
    [{ tools_retrieval: { decider: true }, decider }, ["conflict spec.tools_retrieval.decider"]],
    [{ tools_retrieval: { enabled: true, decider: true }, decider }, []],
    [{ ...escalation({ enabled: true, escalate_to: "l" }), decider }, []],
    [{ ...escalation({ escalate_to: "l" }), decider }, ["conflict spec.model.confidence_escalation.decider"]],
    [escalation({ enabled: true, escalate_to: "l" }), ["conflict spec.model.confidence_escalation.decider"]],
    [{ model: { confidence_escalation: { enabled: true } } }, ["conflict spec.model.confidence_escalation.enabled"]],
    [
      { ...escalation({ enabled: true, escalate_to: "l" }), decider, pattern: "reflect" },
      ["conflict spec.model.confidence_escalation", "conflict spec.model.confidence_escalation.decider"],
    ],
  ]);
});

test("policies have tools and scopes, none of them blank", () => {
  const policy = (fields: object) => ({ policies: [{ id: "p", required_scopes: ["s"], tools: ["t"], ...fields }] });

  holds([
    [policy({}), []],
    [policy({ tools: [] }), ["too_short spec.policies.0.tools"]],
    [policy({ required_scopes: [] }), ["too_short spec.policies.0.required_scopes"]],
    [policy({ required_scopes: ["s", "  "] }), ["too_short spec.policies.0.required_scopes.1"]],
    [{ policies: [{ id: "p" }] }, ["missing spec.policies.0.required_scopes", "missing spec.policies.0.tools"]],
    [{ auth: { inbound: { required_scopes: [" "] } } }, ["too_short spec.auth.inbound.required_scopes.0"]],
    [{ tool_guidance: { calculator: "   " } }, ["too_short spec.tool_guidance.calculator"]],
  ]);
});

test("an entry of tool_effects needs a known effect or risk", () => {
  holds([
    [{ tool_effects: { calculator: "read", "x*": { effect: "read", risk: "speaks" }, y: { risk: "reads" } } }, []],
    [{ tool_effects: { calculator: {} } }, ["missing spec.tool_effects.calculator"]],
    [{ tool_effects: { calculator: { effect: "never" } } }, ["enum spec.tool_effects.calculator.effect"]],
    [{ tool_effects: { calculator: { cost: 1 } } }, ["extra_forbidden spec.tool_effects.calculator.cost"]],
  ]);
});

test("permissions start in an allowed mode that is not bypass", () => {
  const refused = ["conflict spec.permissions.default_mode"];

  holds([
    [{ permissions: { default_mode: "plan" } }, []],
    [{ permissions: { default_mode: "plan", allowed_modes: ["default"] } }, refused],
    [{ permissions: { default_mode: "bypass", allowed_modes: ["bypass"] } }, refused],
    [{ permissions: { allowed_modes: ["plan"] } }, refused],
    [{ permissions: { allowed_modes: ["default", "bypass"] } }, []],
  ]);
});

test("hooks are for react and deep only", () => {
  const hooks = [{ id: "h", event: "stop", endpoint: "e" }];

  for (const pattern of ["react", "deep"]) holds([[{ pattern, hooks }, []]]);
  for (const pattern of ["reflect", "plan_execute"]) holds([[{ pattern, hooks }, ["conflict spec.hooks"]]]);
  for (const pattern of multi) holds([[{ pattern, sub_agents: ["y"], hooks }, ["conflict spec.hooks"]]]);
});

test("content_screening needs a model or decider for tools, and enabled for images", () => {
  holds([
    [{ content_screening: { model_tools: ["a"] } }, ["conflict spec.content_screening.model_tools"]],
    [{ content_screening: { model_tools: ["a"], model: "small" } }, []],
    [{ content_screening: { model_tools: ["a"], decider: true }, decider: { id: "clef" } }, []],
    [{ content_screening: { image_model: "small" } }, ["conflict spec.content_screening.image_model"]],
    [{ content_screening: { image_model: "small", enabled: true } }, []],
  ]);
});

test("groupchat takes no output_schema", () => {
  const output_schema = { type: "object" };

  holds([[{ pattern: "groupchat", sub_agents: ["y"], output_schema }, ["conflict spec.output_schema"]]]);
  for (const pattern of ["react", "deep", "reflect", "plan_execute"]) holds([[{ pattern, output_schema }, []]]);
  for (const pattern of ["router", "parallel"]) holds([[{ pattern, sub_agents: ["y"], output_schema }, []]]);
});

test("distinguishing names are not repeated", () => {
  const twice = (field: string, entry: object, key = "name"): [object, string[]] => [
    { [field]: [entry, entry] },
    [`conflict spec.${field}.1.${key}`],
  ];

  holds([
    twice("prompts", { name: "p" }),
    twice("skills", { name: "s" }),
    twice("mcp_servers", { name: "m", url: "https://a.example" }),
    twice("peers", { name: "p", url: "https://a.example" }),
    twice("containers", { name: "c", image: "i" }),
    twice("queues", { name: "q", queue_binding: "b" }),
    twice("sandboxes", { name: "s", binding: "b" }),
    twice("shell_tools", { name: "s", commands: ["ls"] }),
    twice("http_tools", { name: "h" }),
    twice("search_tools", { name: "s" }),
    twice("document_tools", { name: "d" }),
    twice("image_tools", { name: "i", op: "info" }),
    twice("browser_tools", { name: "b", binding: "b" }),
    twice("client_tools", { name: "c" }),
    twice("policies", { id: "p", required_scopes: ["s"], tools: ["t"] }, "id"),
    twice("approvals", { id: "a" }, "id"),
    twice("hooks", { id: "h", event: "stop", endpoint: "e" }, "id"),
    [{ delegation: { agents: [{ name: "y" }, { name: "y" }] } }, ["conflict spec.delegation.agents.1.name"]],
    [
      {
        guardrails: {
          judges: [
            { name: "j", criteria: "c" },
            { name: "j", criteria: "d" },
          ],
        },
      },
      ["conflict spec.guardrails.judges.1.name"],
    ],
    [{ a2a: { capabilities: [{ id: "c" }, { id: "c" }] } }, ["conflict spec.a2a.capabilities.1.id"]],
    [{ prompts: [{ name: "Greet" }, { name: "greet" }] }, ["conflict spec.prompts.1.name"]],
    [{ peers: ["P", "p"].map((name) => ({ name, url: "https://a.example" })) }, []],
  ]);
});

test("framework names are refused unless the manifest complies with them", () => {
  const refused = ["conflict spec.governance.frameworks.0"];
  const soc2 = (fields: object) => ({
    governance: { frameworks: ["soc2"] },
    limits: { max_tool_calls: 5 },
    auth: { inbound: { schemes: ["jwt"] } },
    ...fields,
  });
  const aiAct = (fields: object, governance: object = {}) => ({
    governance: { frameworks: ["eu_ai_act"], transparency_notice: true, ...governance },
    ...fields,
  });
  const screened = { content_screening: { enabled: true } };
  const approvals = [{ id: "a", tools: ["*"] }];

  holds([
    [soc2({}), []],
    [soc2({ auth: { inbound: { required_scopes: ["s"] } } }), []],
    [soc2({ auth: {} }), refused],
    [soc2({ limits: {} }), refused],
    [soc2({ limits: { precount: true } }), refused],
    [soc2({ limits: {}, approvals }), []],
    [soc2({ observability: { trace: false } }), refused],
    [soc2({ anomaly: { enabled: false } }), refused],
    [aiAct(screened), []],
    [aiAct({}), refused],
    [aiAct(screened, { transparency_notice: false }), refused],
    [aiAct({ guardrails: { providers: ["pii"] } }), []],
    [aiAct({ guardrails: { providers: ["pii"], targets: ["output"] } }), refused],
    [aiAct(screened, { risk_tier: "high" }), refused],
    [aiAct({ ...screened, approvals }, { risk_tier: "high" }), []],
    [aiAct({ ...screened, approvals: [{ id: "a", allow_unattended: true }] }, { risk_tier: "high" }), refused],
  ]);
});

test("all broken rules between fields are reported, each with its path first", () => {
  const problems = problemsOf(() =>
    parseManifest(agent({ pattern: "router", personal_skills: "write", execution: { webhooks: ["a"] } })),
  );

  assert.deepEqual(problems, [
    {
      loc: ["spec", "sub_agents"],
      msg: "spec.sub_agents is required by the patterns router, parallel and groupchat.",
      type: "missing",
    },
    {
      loc: ["spec", "personal_skills"],
      msg: "spec.personal_skills can be write only when spec.skill_authoring.enabled is true.",
      type: "conflict",
    },
    {
      loc: ["spec", "execution", "webhooks"],
      msg: "spec.execution.webhooks goes with spec.execution.mode durable only.",
      type: "conflict",
    },
  ]);
});

test("AUTH-034 the provider of the model and of every fallback is in auth.outbound.providers", () => {
  const spec = (providers: string[], fallbacks: string[] = [], id: string | null = null) => ({
    model: { id, fallbacks },
    auth: { outbound: { providers } },
  });

  assert.deepEqual(compileProblems(spec(["openai"])), []);
  assert.deepEqual(compileProblems(spec(["anthropic"])), ["conflict spec.model.id"], "the default route counts too");
  assert.deepEqual(compileProblems(spec(["openai"], ["large"])), ["conflict spec.model.fallbacks.0"]);
  assert.deepEqual(compileProblems(spec(["openai", "anthropic"], ["large"])), []);
  assert.deepEqual(compileProblems(spec([], ["large"], "free")), []);
  assert.deepEqual(compileProblems(spec(["OpenAI"])), ["conflict spec.model.id"]);
  assert.deepEqual(compileSpec(spec(["openai"])).outboundProviders, ["openai"]);
});
