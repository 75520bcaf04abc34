// compose.cluster.yaml and the files of deploy/ agree with the program. The tests need no container engine.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { bootRefusals } from "../../../governance/settings/boot-refusals.ts";
import { clusterConfigOf } from "../../../governance/settings/cluster-settings.ts";
import { readSettings } from "../../../governance/settings/settings.ts";
import { commandNames } from "../../../host/command-names.ts";
import { root } from "../../support/source.ts";

const read = (file: string): string => readFileSync(join(root, file), "utf8");
const apiKeys = JSON.stringify({ svc_0123456789abcdef: { tenant_id: "default", sub: "me", scopes: ["chat:read"] } });
const given: Readonly<Record<string, string>> = {
  POSTGRES_PASSWORD: "secret",
  SVC_AUTH_API_KEYS: apiKeys,
  SVC_CLUSTER_KEY: "0123456789abcdef".repeat(4),
  SVC_AUDIT_KEY: "fedcba9876543210".repeat(4),
};
const image = { SVC_HOST: "0.0.0.0", SVC_PORT: "8080", SVC_DATA_DIR: "/data", SVC_DRAIN_DELAY_SECONDS: "5" };
/** Interrupted turns write their last rows after the grace period. */
const lastWritesSeconds = 10;

/** The settings of a host. Fails if the program does not know one, or would not start. */
function settingsOf(environment: Readonly<Record<string, string>>) {
  const { settings, issues } = readSettings(environment);
  assert.deepEqual([issues, settings.unknownNames, bootRefusals(settings)], [[], [], []]);
  return settings;
}

describe("compose.cluster.yaml", () => {
  interface Service {
    readonly command?: readonly string[];
    readonly environment?: Readonly<Record<string, string>>;
    readonly deploy?: { readonly replicas: number };
    readonly depends_on?: unknown;
    readonly ports?: readonly string[];
    readonly volumes?: readonly string[];
    readonly stop_grace_period?: string;
    readonly read_only?: boolean;
  }
  const { services, configs, volumes } = parse(read("compose.cluster.yaml"), { strict: true, merge: true }) as {
    readonly services: Readonly<Record<string, Service>>;
    readonly configs: { readonly proxy: { readonly content: string } };
    readonly volumes: object;
  };
  const substituted = (value: string): string =>
    value.replace(/\$\{(\w+)(?::([-?])([^}]*))?\}/g, (_, name: string, operator: string, words: string) =>
      operator === "-" ? words : (given[name] ?? assert.fail(`${name} is required and not documented`)),
    );
  const environmentOf = (name: string): Record<string, string> => ({
    ...image,
    ...Object.fromEntries(
      Object.entries(services[name]?.environment ?? {}).map(([key, value]) => [key, substituted(value)]),
    ),
  });

  for (const [name, replicas] of [
    ["api", 2],
    ["worker", 2],
    ["scheduler", 1],
  ] as const)
    test(`starts ${replicas} processes with the duty ${name}`, () => {
      const { command, deploy, stop_grace_period = "", read_only } = services[name] ?? assert.fail("it is missing");
      const settings = settingsOf({ ...environmentOf(name), SVC_PROCESS_ROLE: name });
      const { drainDelaySeconds, gracefulShutdownSeconds } = settings;

      assert.deepEqual([command, deploy?.replicas, settings.duties], [[name], replicas, [name]]);
      assert.ok((commandNames as readonly string[]).includes(name));
      // The health check of the image asks SVC_PORT.
      assert.equal(name === "api" || settings.metricsPort === settings.port, true);
      assert.notEqual(clusterConfigOf(settings), null);
      assert.equal(settings.databaseUrl, environmentOf("migrate").SVC_DATABASE_URL);
      const grace = Number.parseInt(stop_grace_period, 10);
      assert.ok(grace >= drainDelaySeconds + gracefulShutdownSeconds + lastWritesSeconds);
      assert.equal(read_only, true);
    });

  test("starts the hosts after the migration, and gives that no key of theirs", () => {
    assert.deepEqual(services.api?.depends_on, {
      postgres: { condition: "service_healthy" },
      redis: { condition: "service_healthy" },
      migrate: { condition: "service_completed_successfully" },
      objects: { condition: "service_completed_successfully" },
    });
    assert.deepEqual(services.migrate?.command, ["migrate"]);
    assert.deepEqual(Object.keys(services.migrate?.environment ?? {}), ["SVC_DATABASE_URL"]);
  });

  test("has a Redis that hosts accept, and a proxy that holds no stream back", () => {
    assert.deepEqual(services.redis?.command?.slice(-2), ["--maxmemory-policy", "noeviction"]);
    assert.deepEqual(services.proxy?.ports, ["127.0.0.1:8080:8080"]);
    assert.match(configs.proxy.content, /proxy_buffering off;/);
    assert.match(configs.proxy.content, /server api:8080 resolve/);
    assert.deepEqual(Object.keys(volumes), ["objects", "postgres"]);
  });
});

describe("deploy/kubernetes", () => {
  interface Container {
    readonly args: readonly string[];
    readonly env?: readonly { readonly name: string; readonly value?: string }[];
    readonly envFrom?: readonly object[];
    readonly ports?: readonly { readonly containerPort: number }[];
    readonly readinessProbe?: { readonly httpGet: { readonly path: string } };
    readonly livenessProbe?: { readonly httpGet: { readonly path: string } };
    readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
    readonly securityContext: object;
  }
  interface Resource {
    readonly kind: string;
    readonly metadata: { readonly name: string };
    readonly data?: Readonly<Record<string, string>>;
    readonly spec: {
      readonly replicas?: number;
      readonly selector: { readonly matchLabels?: object };
      readonly ports?: readonly { readonly targetPort: number }[];
      readonly template: {
        readonly metadata?: { readonly labels: object };
        readonly spec: {
          readonly terminationGracePeriodSeconds?: number;
          readonly enableServiceLinks?: boolean;
          readonly containers: readonly [Container];
          readonly volumes?: readonly { readonly name: string }[];
        };
      };
    };
  }
  const documents = ["svc.yaml", "migrate.yaml"].flatMap((file) =>
    parseAllDocuments(read(`deploy/kubernetes/${file}`), { strict: true, uniqueKeys: true }).map(
      (document) => document.toJS() as Resource,
    ),
  );
  const of = (kind: string): Resource[] => documents.filter((document) => document.kind === kind);
  const secret = {
    SVC_DATABASE_URL: "postgres://svc:secret@db/svc",
    SVC_REDIS_URL: "rediss://:secret@redis:6379/0",
    SVC_CLUSTER_KEY: given.SVC_CLUSTER_KEY as string,
    SVC_AUDIT_KEY: given.SVC_AUDIT_KEY as string,
    SVC_AUTH_API_KEYS: apiKeys,
    SVC_S3_ACCESS_KEY: "id-of-the-key",
    SVC_S3_SECRET_KEY: "secret-of-the-key",
    OPENAI_API_KEY: "a-key-of-a-provider",
  };

  test("has a deployment for each duty, which starts with its settings", () => {
    const [config] = of("ConfigMap");
    const found = of("Deployment").map(({ spec }) => {
      const { containers, terminationGracePeriodSeconds = 0, volumes = [] } = spec.template.spec;
      const [{ args, env = [], ports, readinessProbe, livenessProbe, volumeMounts = [] }] = containers;
      const own = Object.fromEntries(env.map(({ name, value = "" }) => [name, value]));
      const settings = settingsOf({ ...image, ...config?.data, ...secret, ...own, SVC_PROCESS_ROLE: args[0] ?? "" });
      const { drainDelaySeconds, gracefulShutdownSeconds } = settings;
      assert.ok(terminationGracePeriodSeconds >= drainDelaySeconds + gracefulShutdownSeconds + lastWritesSeconds);
      const isApi = settings.duties.includes("api");
      assert.equal(ports?.[0]?.containerPort, isApi ? settings.port : settings.metricsPort);
      assert.equal(readinessProbe?.httpGet.path, "/ready?require=database,object_store");
      assert.equal(livenessProbe?.httpGet.path, "/live");
      assert.deepEqual(
        volumeMounts.map(({ name }) => name),
        volumes.map(({ name }) => name),
      );
      assert.ok(volumeMounts.some(({ mountPath }) => mountPath === settings.dataDir));
      assert.deepEqual(spec.selector.matchLabels, spec.template.metadata?.labels);
      assert.notEqual(clusterConfigOf(settings), null);
      return [spec.replicas, settings.duties];
    });

    assert.deepEqual(found, [
      [2, ["api"]],
      [2, ["worker"]],
      [1, ["scheduler"]],
    ]);
    assert.deepEqual(of("Service")[0]?.spec.selector, of("Deployment")[0]?.spec.selector.matchLabels);
  });

  test("names every variable of the secret", () => {
    const text = read("deploy/kubernetes/svc.yaml");

    for (const name of Object.keys(secret).filter((each) => each.startsWith("SVC_")))
      assert.ok(text.includes(name), name);
  });

  test("keeps the variables of its service apart from the settings of svc", () => {
    for (const { spec } of [...of("Deployment"), ...of("Job")])
      assert.equal(spec.template.spec.enableServiceLinks, false);
  });

  test("migrates in a job that gets the URL of the database alone", () => {
    const [job] = of("Job");
    const [container] = job?.spec.template.spec.containers ?? assert.fail("there is no job");

    assert.deepEqual([container.args, container.envFrom], [["migrate"], undefined]);
    assert.deepEqual(
      container.env?.map(({ name }) => name),
      ["SVC_DATABASE_URL"],
    );
  });
});

describe("deploy/systemd", () => {
  const unit = (file: string): Map<string, string> =>
    new Map(
      read(`deploy/systemd/${file}`)
        .split("\n")
        .filter((line) => /^\w+=/.test(line))
        .map((line): [string, string] => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );

  test("starts commands of svc, restarts hosts that end, and lets turns end", () => {
    const host = unit("svc.service");
    const migrate = unit("svc-migrate.service");
    const { drainDelaySeconds, gracefulShutdownSeconds } = settingsOf({});

    for (const each of [host, migrate]) {
      const [, command = ""] = /^\/usr\/bin\/node svc\.js (\w+)$/.exec(each.get("ExecStart") ?? "") ?? [];
      assert.ok((commandNames as readonly string[]).includes(command), command);
    }
    assert.equal(host.get("Restart"), "always");
    assert.ok(Number(host.get("TimeoutStopSec")) >= drainDelaySeconds + gracefulShutdownSeconds + lastWritesSeconds);
    assert.equal(unit("svc@.service").get("ExecStart"), "/usr/bin/node svc.js %i");
    assert.equal(unit("svc@.service").get("TimeoutStopSec"), host.get("TimeoutStopSec"));
    assert.doesNotMatch(read("deploy/systemd/svc.service"), /SVC_DUTIES/);
  });
});
