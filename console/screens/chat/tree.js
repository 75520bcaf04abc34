// The log of a thread is a tree of events. The active branch ends at the leaf.

/** The events of a thread by id, with their children. */
export class Tree {
  constructor(transcript = [], leafId = null) {
    this.events = new Map();
    this.children = new Map();
    this.leafId = leafId;
    for (const event of transcript) this.add(event);
  }

  add(event) {
    if (this.events.has(event.id)) return;
    this.events.set(event.id, event);
    const siblings = this.children.get(event.parentId) ?? [];
    siblings.push(event);
    this.children.set(event.parentId, siblings);
  }

  /** Returns the events from the root to the leaf. */
  path() {
    const path = [];
    for (let event = this.events.get(this.leafId); event; event = this.events.get(event.parentId)) path.push(event);
    return path.reverse();
  }

  /** Returns the messages of people that start a branch at the same place as this one, itself included. */
  siblings(event) {
    return (this.children.get(event.parentId) ?? []).filter(({ kind, role }) => kind === "message" && role === "user");
  }

  /** Returns the newest end of the branch that starts at an event. */
  endOf(event) {
    let end = event;
    for (let next = this.children.get(end.id); next?.length; next = this.children.get(end.id)) end = next.at(-1);
    return end;
  }

  /** Returns the ends of all branches, the newest first. */
  ends() {
    const ends = [...this.events.values()].filter(({ id }) => !this.children.has(id));
    return ends.sort((a, b) => b.seq - a.seq);
  }

  /** Returns the last message of a person on the way to an event. */
  lastQuestion(event) {
    for (let each = event; each; each = this.events.get(each.parentId))
      if (each.kind === "message" && each.role === "user") return each;
    return null;
  }
}
