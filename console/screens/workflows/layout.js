// The places of the steps of a graph: each step stands in a column right of all steps that it needs, and the order in a column keeps
// crossings of arrows few. An arrow over several columns gets a place in each, so that it passes between the steps.

/** Width and height of a step, and the space to the next column and row, in CSS pixels. */
export const stepSize = { width: 184, height: 60 };
const gap = { column: 60, row: 18 };
const margin = 10;

/** Places of arrows between columns. Beyond this number arrows are drawn straight through. */
const bendsMax = 2000;
const sweeps = 4;

/**
 * Places the steps of a graph. A step is {id, needs}; needs that name no step are left out. Returns the size of the drawing, the place of
 * each step in the order of columns, and the arrows with the points that they pass.
 */
export function layoutOf(steps) {
  const columns = columnsOf(steps);
  const chains = chainsOf(steps, columns);
  arrange(columns);
  const rowsMax = Math.max(1, ...columns.map((column) => column.length));
  const rowHeight = stepSize.height + gap.row;
  columns.forEach((column, at) => {
    column.forEach((cell, row) => {
      cell.x = margin + at * (stepSize.width + gap.column);
      cell.y = margin + (row + (rowsMax - column.length) / 2) * rowHeight;
    });
  });
  return {
    width: 2 * margin + columns.length * (stepSize.width + gap.column) - gap.column,
    height: 2 * margin + rowsMax * rowHeight - gap.row,
    places: columns.flat().filter(({ isBend }) => !isBend),
    arrows: chains.map((chain) => ({ from: chain[0].id, to: chain.at(-1).id, points: pointsOf(chain) })),
  };
}

/** Returns the path of an arrow for SVG: curves that leave and reach each point level. */
export function pathOf([first, ...points]) {
  let path = `M${first.x} ${first.y}`;
  let last = first;
  for (const point of points) {
    const middle = (last.x + point.x) / 2;
    path += ` C${middle} ${last.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    last = point;
  }
  return path;
}

/** Returns the cells of each column. A cell is {id, isBend, before, after}. */
function columnsOf(steps) {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const depths = new Map();
  const depthOf = (id) => {
    const known = depths.get(id);
    if (known !== undefined) return known;
    // A cycle ends here; a saved workflow has none.
    depths.set(id, 0);
    const needed = byId.get(id).needs.filter((each) => byId.has(each));
    const depth = Math.max(-1, ...needed.map(depthOf)) + 1;
    depths.set(id, depth);
    return depth;
  };
  const columns = [];
  for (const { id } of steps) {
    const depth = depthOf(id);
    while (columns.length <= depth) columns.push([]);
    columns[depth].push({ id, isBend: false, before: [], after: [], column: depth });
  }
  return columns;
}

/** Returns each arrow as its cells from the needed step to the step. Adds the cells between them to their columns. */
function chainsOf(steps, columns) {
  const cells = new Map(columns.flat().map((cell) => [cell.id, cell]));
  const chains = [];
  let bends = 0;
  for (const { id, needs } of steps)
    for (const need of new Set(needs)) {
      const [from, to] = [cells.get(need), cells.get(id)];
      if (from === undefined || from.column >= to.column) continue;
      const between = to.column - from.column - 1;
      const chain = [from];
      if (bends + between <= bendsMax) {
        bends += between;
        for (let column = from.column + 1; column < to.column; column++) {
          const bend = { id: null, isBend: true, before: [], after: [], column };
          columns[column].push(bend);
          chain.push(bend);
        }
      }
      chain.push(to);
      for (let at = 1; at < chain.length; at++) {
        chain[at].before.push(chain[at - 1]);
        chain[at - 1].after.push(chain[at]);
      }
      chains.push(chain);
    }
  return chains;
}

/** Orders each column by the middle of the neighbours in the column before, then in the one after, a few times. */
function arrange(columns) {
  const number = () => {
    for (const column of columns)
      column.forEach((cell, row) => {
        cell.row = row - (column.length - 1) / 2;
      });
  };
  number();
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const side = sweep % 2 === 0 ? "before" : "after";
    for (const column of sweep % 2 === 0 ? columns : columns.toReversed()) {
      const wanted = new Map(column.map((cell) => [cell, middleOf(cell, side)]));
      column.sort((one, two) => wanted.get(one) - wanted.get(two));
      column.forEach((cell, row) => {
        cell.row = row - (column.length - 1) / 2;
      });
    }
  }
}

function middleOf(cell, side) {
  const rows = cell[side].map(({ row }) => row);
  return rows.length === 0 ? cell.row : rows.reduce((sum, row) => sum + row, 0) / rows.length;
}

function pointsOf(chain) {
  const middle = ({ y }) => y + stepSize.height / 2;
  return chain.flatMap((cell, at) => {
    const left = { x: cell.x, y: middle(cell) };
    const right = { x: cell.x + stepSize.width, y: middle(cell) };
    return at === 0 ? [right] : at === chain.length - 1 ? [left] : [left, right];
  });
}
