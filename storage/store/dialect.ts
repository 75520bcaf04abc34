/** The two engines of the store. Their other differences are in sqlite/ and postgres/. */
export type Dialect = "sqlite" | "postgres";

/** Words of the schema that the engines spell differently; migrations write them as {{word}}. */
const schemaWords: Record<string, Record<Dialect, string>> = {
  /** An integer primary key whose value svc chooses. */
  key: { sqlite: "INTEGER PRIMARY KEY", postgres: "BIGINT PRIMARY KEY" },
  /** For narrow tables that are looked up by their primary key only. */
  clustered: { sqlite: "WITHOUT ROWID", postgres: "" },
  float: { sqlite: "REAL", postgres: "DOUBLE PRECISION" },
};

/**
 * The store's clock in epoch milliseconds, the value of `:now` in a statement. Times that several processes compare use
 * it, because their own clocks differ.
 */
export const storeClock: Readonly<Record<Dialect, string>> = {
  sqlite: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
  postgres: "CAST(extract(epoch FROM now()) * 1000 AS BIGINT)",
};

/**
 * Renders a migration's text for one engine. Text columns compare byte by byte on both, independent of the database's
 * locale.
 */
export function renderSchema(text: string, dialect: Dialect): string {
  const rendered = text.replace(/\{\{(\w+)\}\}/g, (_, word: string) => {
    const spelling = schemaWords[word];
    if (!spelling) throw new Error(`{{${word}}} is not a word of schemaWords`);
    return spelling[dialect];
  });
  return dialect === "sqlite" ? rendered : rendered.replace(/\bTEXT\b(?! SEARCH)/g, 'TEXT COLLATE "C"');
}
