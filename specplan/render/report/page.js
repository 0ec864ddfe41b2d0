"use strict";
(function () {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = read("data"), charts = read("charts");
  const state = { batch: data.start.batch, acceptance: data.start.acceptance, shown: new Set(data.methods) };
  const views = {};
  const byId = (id) => document.getElementById(id);
  const cell = (name, batch, acceptance) => data.cells[name][batch][acceptance];

  const shapeWords = (nodes, depth, grown) => {
    if (nodes === 0) return "off";
    if (grown) return `steps ${grown[0]}, topk ${grown[1]}, ${nodes} nodes`;
    return nodes === depth ? `chain of ${nodes}` : `${nodes} nodes, depth ${depth}`;
  };
  const number = (value, digits) => (value === null ? "-" : value.toFixed(digits));
  const rateWords = (value) => (value === null ? "-" : String(Number(value.toPrecision(4))));

  function point(name, batch, acceptance) {
    const at = cell(name, batch, acceptance);
    if (at === null) return null;
    const [nodes, depth, tau, rate, speedup, grown] = at;
    const stop = data.stops[acceptance];
    return {
      method: name, batch: data.batches[batch], acceptance: stop.label, p: stop.p, nodes, depth, tau, rate, speedup,
      shape: shapeWords(nodes, depth, grown),
    };
  }

  const lacking = (name) =>
    data.unknown.includes(name) && data.stops[state.acceptance].p === null ? "no acceptance" : "does not fit";
  const known = (points) => points.filter((p) => p !== null);
  const names = () => data.methods.filter((name) => state.shown.has(name));

  // What each chart shows at the sliders' place, by data set.
  const shows = {
    batch: () => ({
      points: names().flatMap((n) => known(data.batches.map((_, i) => point(n, i, state.acceptance)))),
      here: [{ batch: data.batches[state.batch] }],
    }),
    acceptance: () => ({
      points: names().flatMap((n) => known(data.stops.map((stop, i) => (stop.p === null ? null : point(n, state.batch, i))))),
      here: data.stops[state.acceptance].p === null ? [] : [{ p: data.stops[state.acceptance].p }],
    }),
    nodes: () => ({
      points: names().flatMap((n) =>
        data.curves[n][state.batch][state.acceptance].map(([nodes, speedup]) => ({ method: n, nodes, speedup }))),
      optimum: known(names().map((n) => point(n, state.batch, state.acceptance))).filter((p) => p.nodes > 0),
    }),
    tree: () => ({
      tree: (data.trees[state.batch][state.acceptance] || []).map(([level, left, right, best]) => ({
        level, left, right, reach: right - left, path: best ? "likeliest path" : "other nodes",
      })),
    }),
    stair: () => {
      const stair = data.stairs[state.batch].map(([width, time]) => ({ width, time }));
      const at = cell(data.lead, state.batch, state.acceptance);
      const width = at === null ? 1 : at[0] + 1;
      const nearest = stair.reduce((a, b) => (Math.abs(b.width - width) < Math.abs(a.width - width) ? b : a));
      return { stair, at: [{ width, time: nearest.time }] };
    },
    roofline: () => ({}),
  };

  function best() {
    const all = known(names().map((name) => point(name, state.batch, state.acceptance)));
    const top = all.reduce((a, b) => (a === null || b.speedup > a.speedup ? b : a), null);
    return top;
  }

  function say() {
    byId("batch-now").textContent = data.batches[state.batch];
    byId("acceptance-now").textContent = data.stops[state.acceptance].label;
    const top = best();
    byId("now").textContent =
      top === null ? "Nothing can be planned here."
      : top.nodes === 0 ? "Here plain decoding is fastest: do not speculate."
      : `Here: ${top.method}, ${top.shape}: ${number(top.speedup, 2)} x plain decoding` +
        (top.rate === null ? "." : `, ${rateWords(top.rate)} tokens/s.`);
    for (const row of document.querySelectorAll("tr[data-method]")) {
      const name = row.dataset.method, at = point(name, state.batch, state.acceptance);
      const put = (field, text) => { row.querySelector(`[data-field=${field}]`).textContent = text; };
      put("shape", at === null ? lacking(name) : at.shape);
      put("tau", at === null ? "-" : number(at.tau, 3));
      put("rate", at === null ? "-" : rateWords(at.rate));
      put("speedup", at === null ? "-" : number(at.speedup, 3));
      row.classList.toggle("best", top !== null && top.method === name && top.nodes > 0);
      row.classList.toggle("off", !state.shown.has(name));
    }
  }

  async function show() {
    say();
    await Promise.all(Object.entries(views).map(([name, view]) => {
      for (const [set, rows] of Object.entries(shows[name]())) view.data(set, rows);
      return view.resize().runAsync();
    }));
  }

  for (const which of ["batch", "acceptance"]) {
    byId(which).addEventListener("input", (event) => { state[which] = Number(event.target.value); show(); });
  }
  for (const box of document.querySelectorAll("input[data-toggle]")) {
    box.addEventListener("change", () => {
      state.shown[box.checked ? "add" : "delete"](box.dataset.toggle);
      show();
    });
  }

  say();
  const embedded = Object.entries(charts).map(async ([name, spec]) => {
    const options = { actions: false, renderer: "svg", tooltip: { theme: "custom" }, logLevel: 1 }; // errors alone
    const result = await vegaEmbed(`#chart-${name}`, { ...spec, datasets: shows[name]() }, options);
    views[name] = result.view;
  });
  Promise.all(embedded).then(show).then(() => { document.body.dataset.ready = "yes"; });
})();
