// What changes while a run goes on: the progress of a stage at once, figures whenever a stage is committed.
"use strict";

const TITLES = { rollouts: "plays and learns", evaluate: "is judged", reward_model: "teaches the reward model" };
const ORDER = ["rollouts", "evaluate", "reward_model"];
const UNITS = { rollouts: "steps", evaluate: "judgements", reward_model: "updates" };
const SILENT_S = 90; // a stage says something at least every few seconds
let state = null;
let progress = null;
let drawn = null;

function put(name, text) {
  const element = document.querySelector(`[data-live="${name}"]`);
  if (element && element.textContent !== text) element.textContent = text;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function count(value) {
  return Math.round(value).toLocaleString("en");
}

function showProgress() {
  if (!progress) return;
  const finished = progress.stage === "finished";
  const does = progress.stopped ? "was stopped" : TITLES[progress.stage] || "begins";
  put("headline", finished ? "The run is over" : `Epoch ${progress.epoch} ${does}`);
  const before = (progress.training && progress.training.step_start) || 0; // steps of earlier epochs
  const [done, total] = [progress.step - before, progress.steps_total - before];
  const unit = UNITS[progress.stage] || "";
  const bar = document.querySelector('[data-live="bar"]');
  if (bar) bar.value = finished ? 1 : progress.steps_total ? done / total : 0;
  put("done", progress.steps_total ? `${count(done)} of ${count(total)} ${unit}` : "–");
  put("rate", progress.rate ? `${count(progress.rate)} ${unit} per second` : "–");
  put("eta", progress.eta_s === null ? "–" : duration(progress.eta_s));
  const now = ORDER.indexOf(progress.stage);
  for (const item of document.querySelectorAll("[data-stage]")) {
    const at = ORDER.indexOf(item.dataset.stage);
    item.classList.toggle("now", at === now);
    item.classList.toggle("done", finished || at < now);
    item.toggleAttribute("aria-current", at === now);
  }
  const errors = document.querySelector('[data-live="errors"]');
  if (errors) errors.replaceChildren(...progress.errors.slice(-3).map((error) => {
    const item = document.createElement("li");
    item.textContent = `${error.at.slice(11, 19)} ${error.message}`;
    return item;
  }));
  showAge();
  showPlaces();
}

function showAge() {
  const link = document.getElementById("link");
  if (link.dataset.connected !== "1") return;
  const seconds = progress && progress.updated ? Math.max(0, (Date.now() - Date.parse(progress.updated)) / 1000) : null;
  if (seconds !== null) put("age", `${duration(seconds)} ago`);
  const state = stateAfter(seconds);
  const said = state === "silent" ? `nothing heard of the run for ${duration(seconds)}` : state;
  if (link.textContent !== said) link.textContent = said;
  for (const only of document.querySelectorAll("[data-when]")) only.hidden = only.dataset.when !== state;
}

function stateAfter(seconds) {
  if (!progress || !progress.stage) return "connected";
  if (progress.stage === "finished") return "finished";
  if (progress.stopped) return "stopped";
  return seconds > SILENT_S ? "silent" : "live";
}

function showPlaces() {
  const places = (progress && !progress.stopped && progress.training && progress.training.places) || {};
  for (const room of document.querySelectorAll("[data-room]")) {
    const here = room.querySelector(".here");
    const share = places[room.dataset.room] || 0;
    here.hidden = !share;
    here.textContent = share ? `${Math.max(1, Math.round(100 * share))} % now` : "";
  }
}

async function refresh() {
  const old = document.getElementById("fresh");
  if (!old || old.contains(document.activeElement)) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("fresh");
  if (fresh && fresh.innerHTML !== (drawn ?? old.innerHTML)) {
    drawn = fresh.innerHTML; // what scripts add to a page is no difference
    old.replaceWith(document.adoptNode(fresh));
    document.dispatchEvent(new CustomEvent("questloop:drawn"));
  }
  showPlaces();
}

function follow() {
  const link = document.getElementById("link");
  const source = new EventSource(`${document.documentElement.dataset.base}/events`);
  source.onopen = () => { link.dataset.connected = "1"; showAge(); };
  source.onerror = () => {
    link.dataset.connected = "0";
    link.textContent = "not connected, trying again";
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 3000); // a proxy answered in its place
  };
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    progress = news.progress;
    showProgress();
    document.dispatchEvent(new CustomEvent("questloop:progress", { detail: progress }));
    if (state !== null && news.state !== state) refresh();
    state = news.state;
  };
}

document.addEventListener("DOMContentLoaded", () => {
  drawn = document.getElementById("fresh")?.innerHTML ?? null;
  follow();
  setInterval(showAge, 1000);
  const every = Number(document.getElementById("fresh")?.dataset.every);
  let step = null;
  // A page of the run is drawn anew only while it plays; one that follows something else always.
  if (every) setInterval(() => {
    const now = progress ? `${progress.stage} ${progress.step}` : null;
    if (document.getElementById("fresh").dataset.follows === "run" && (now === step || !progress?.training)) return;
    step = now;
    refresh();
  }, every);
});
