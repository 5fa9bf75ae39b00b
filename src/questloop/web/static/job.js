// Follows a job's log and status until it has ended.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const log = document.querySelector("[data-log]");
  const status = document.querySelector("[data-status]");
  if (log.dataset.final === "1") return;
  const timer = setInterval(async () => {
    const answer = await fetch(log.dataset.log);
    if (!answer.ok) return;
    const news = await answer.json();
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    if (news.log && log.textContent !== news.log) log.textContent = news.log;
    if (atEnd) log.scrollTop = log.scrollHeight;
    if (status.textContent !== news.status) {
      status.textContent = news.status;
      status.className = `tag ${news.status}`;
      refresh();
    }
    if (news.final) clearInterval(timer);
  }, 1000);
});
