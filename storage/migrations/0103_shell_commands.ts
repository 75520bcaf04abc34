import type { Migration } from "../store/migration.ts";

/** Background commands of shell tools. */
export const migration: Migration = {
  revision: "0103",
  name: "shell_commands",
  up: [
    `CREATE TABLE shell_commands (
      tenant_id TEXT NOT NULL,
      command_id TEXT NOT NULL,
      scope TEXT NOT NULL,
      owner TEXT NOT NULL,
      thread_id TEXT NOT NULL,
      manifest TEXT NOT NULL,
      tool TEXT NOT NULL,
      argv TEXT NOT NULL,
      status TEXT NOT NULL,
      exit_code BIGINT,
      started_at BIGINT NOT NULL,
      ended_at BIGINT,
      PRIMARY KEY (tenant_id, command_id)
    ) {{clustered}}`,
    "CREATE INDEX shell_commands_of_thread ON shell_commands (tenant_id, thread_id)",
    "CREATE INDEX shell_commands_running ON shell_commands (tenant_id, scope) WHERE status = 'running'",
    "CREATE INDEX shell_commands_ended ON shell_commands (ended_at) WHERE ended_at IS NOT NULL",
  ],
  down: ["DROP TABLE shell_commands"],
};
