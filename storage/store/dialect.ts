/** The two engines behind the store. What differs between them beyond this file is in sqlite/ and postgres/. */
export type Dialect = "sqlite" | "postgres";

/** Words of the schema that the engines spell differently; migrations write them as {{word}}. */
const schemaWords: Record<string, Record<Dialect, string>> = {
  /** An integer primary key that is chosen by us. */
  key: { sqlite: "INTEGER PRIMARY KEY", postgres: "BIGINT PRIMARY KEY" },
  /** For narrow tables whose primary key is all they are looked up by. */
  clustered: { sqlite: "WITHOUT ROWID", postgres: "" },
  float: { sqlite: "REAL", postgres: "DOUBLE PRECISION" },
};

/**
 * The store's clock in epoch milliseconds, as the value of `:now` in a statement: what several processes agree on is compared with
 * it, as their own clocks differ.
 */
export const storeClock: Readonly<Record<Dialect, string>> = {
  sqlite: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
  postgres: "CAST(extract(epoch FROM now()) * 1000 AS BIGINT)",
};

/** A migration's text for one engine. Text columns compare byte by byte on both, whatever the database's own language is. */
export function renderSchema(text: string, dialect: Dialect): string {
  const rendered = text.replace(/\{\{(\w+)\}\}/g, (_, word: string) => {
    const spelling = schemaWords[word];
    if (!spelling) throw new Error(`no schema word {{${word}}}`);
    return spelling[dialect];
  });
  return dialect === "sqlite" ? rendered : rendered.replace(/\bTEXT\b(?! SEARCH)/g, 'TEXT COLLATE "C"');
}
