// The map: tiles that were walked, and agents on their way, recorded or living, with a slider over time.
"use strict";

const COLUMNS = 10, ROWS = 8, TILE = 16, STRIDE = 16;
const TAIL = 24; // places of a trail that are drawn
const KEPT = 200; // looks at living agents that the slider goes back over
const PLACES_A_SECOND = 12;
const DRAWING = "http://www.w3.org/2000/svg";

document.addEventListener("DOMContentLoaded", () => {
  const tools = document.querySelector("[data-map]");
  if (!tools) return;
  const base = tools.dataset.map;
  const heat = tools.querySelector("[data-heat]"), epoch = tools.querySelector("[data-epoch]");
  const who = tools.querySelector("[data-who]"), slider = tools.querySelector("[data-time]");
  const button = tools.querySelector("[data-play]"), said = tools.querySelector("[data-said]");
  let recorded = { agents: [], every: 1 }, living = [], tiles = {}, timer = null, training = false;

  const roomOf = (group, room) => document.querySelector(`[data-room="${group}:${room.toString(16).padStart(2, "0")}"]`);

  function paint() {
    const most = Math.max(1, ...Object.values(tiles).flatMap((pairs) => pairs.map(([, steps]) => steps)));
    for (const room of document.querySelectorAll("[data-room]")) {
      room.querySelector("canvas")?.remove();
      const pairs = tiles[room.dataset.room];
      if (!heat.checked || !pairs) continue;
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [COLUMNS, ROWS];
      canvas.setAttribute("aria-hidden", "true");
      const brush = canvas.getContext("2d");
      for (const [tile, steps] of pairs) {
        const share = Math.log1p(steps) / Math.log1p(most);
        brush.fillStyle = `hsl(${Math.round(60 - 60 * share)} 100% 50% / ${(0.15 + 0.65 * share).toFixed(2)})`;
        brush.fillRect(tile % STRIDE, Math.floor(tile / STRIDE), 1, 1);
      }
      room.querySelector(".label").before(canvas);
    }
  }

  async function loadTiles() {
    const query = epoch && epoch.value !== "" ? `?epoch=${epoch.value}` : "";
    const answer = await fetch(`${base}/map/tiles.json${query}`);
    if (answer.ok) tiles = await answer.json();
    paint();
  }

  function layer(room) {
    let drawing = room.querySelector("svg.trails");
    if (!drawing) {
      drawing = document.createElementNS(DRAWING, "svg");
      drawing.setAttribute("class", "trails");
      drawing.setAttribute("viewBox", `0 0 ${COLUMNS * TILE} ${ROWS * TILE}`);
      drawing.setAttribute("aria-hidden", "true");
      room.append(drawing);
    }
    return drawing;
  }

  function mark(kind, attributes, into) {
    const element = document.createElementNS(DRAWING, kind);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    into.append(element);
  }

  function trail(places, colour) {
    // A line for every stretch within one room, and a dot where the agent is.
    for (let start = 0; start < places.length;) {
      let end = start;
      while (end < places.length && places[end][0] === places[start][0] && places[end][1] === places[start][1]) end++;
      const room = roomOf(places[start][0], places[start][1]);
      if (room) {
        const points = places.slice(start, end).map(([, , x, y]) => `${x},${y}`).join(" ");
        mark("polyline", { points, class: `trail a${colour}` }, layer(room));
        if (end === places.length) mark("circle", { cx: places[end - 1][2], cy: places[end - 1][3], r: 5, class: `agent a${colour}` }, layer(room));
      }
      start = end;
    }
  }

  function show() {
    for (const drawing of document.querySelectorAll("svg.trails")) drawing.remove();
    const at = Number(slider.value);
    if (who.value === "none") { said.textContent = ""; return; }
    if (who.value === "now") {
      const look = living[Math.min(at, living.length - 1)];
      if (look) look.agents.forEach((each, index) => trail(each.trail, index % 6));
      said.textContent = look ? `step ${look.step.toLocaleString("en")} of the run` : "no agent trains now";
      slider.setAttribute("aria-valuetext", said.textContent);
      return;
    }
    recorded.agents.forEach((each, index) => trail(each.trail.slice(Math.max(0, Math.min(at, each.trail.length) - TAIL), at + 1), index % 6));
    said.textContent = `step ${at * recorded.every} · ${recorded.agents.length} recorded segments of epoch ${recorded.epoch}`;
    slider.setAttribute("aria-valuetext", said.textContent);
  }

  function range() {
    const longest = Math.max(0, ...recorded.agents.map((each) => each.trail.length - 1));
    slider.max = who.value === "now" ? Math.max(0, living.length - 1) : longest;
    slider.disabled = button.disabled = who.value === "none";
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  }

  heat.addEventListener("change", paint);
  if (epoch) epoch.addEventListener("change", loadTiles);
  who.addEventListener("change", () => { stop(); range(); slider.value = who.value === "now" ? slider.max : 0; show(); });
  slider.addEventListener("input", () => { stop(); show(); });
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (slider.value === slider.max) slider.value = 0;
    button.textContent = "Stop";
    timer = setInterval(() => {
      if (slider.value === slider.max) return stop();
      slider.value = Number(slider.value) + 1;
      show();
    }, 1000 / PLACES_A_SECOND);
  });

  document.addEventListener("questloop:progress", async (event) => {
    const now = Boolean(event.detail && event.detail.training);
    if (now !== training) {
      training = now;
      who.querySelector('[value="now"]').disabled = !now && !living.length;
      if (now && who.value === "recorded" && !timer) { who.value = "now"; range(); }
    }
    if (!now || document.hidden) return;
    const answer = await fetch(`${base}/agents.json`);
    if (!answer.ok) return;
    const look = await answer.json();
    if (look.step === null || (living.length && living[living.length - 1].step === look.step)) return;
    const following = who.value === "now" && slider.value === slider.max;
    living = [...living, look].slice(-KEPT);
    range();
    if (following || living.length === 1) { slider.value = slider.max; show(); }
  });
  document.addEventListener("questloop:drawn", () => { paint(); show(); });

  (async () => {
    await loadTiles();
    const answer = await fetch(`${base}/map/trails.json`);
    if (answer.ok) recorded = await answer.json();
    range();
    if (who.value === "recorded") slider.value = Math.min(TAIL, Number(slider.max));
    show();
  })();
});
