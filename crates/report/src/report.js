/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Timelines: says what runs under the pointer, or under a cursor that arrow keys move. Plus and minus zoom, and the
 * picture scrolls. What runs when is read from the table behind the figure's own link; without this script the page
 * has all of it, too.
 */
'use strict';
for (const figure of document.querySelectorAll('figure.views')) {
  const svg = figure.querySelector('svg.timeline'), region = figure.querySelector('.scroll');
  const link = figure.querySelector('figcaption a[download]');
  const left = Number(svg.dataset.left), row = Number(svg.dataset.row), width = svg.viewBox.baseVal.width;
  const seconds = Number(svg.dataset.seconds), cpus = Number(svg.dataset.cpus);
  const column = Number(svg.dataset.column), waiting = svg.dataset.waiting.split(',').map(Number);
  const stretch = /^(\d+),\d+,([\d.e+-]+),([\d.e+-]+),(\d+),"((?:[^"]|"")*)"/;
  const text = decodeURIComponent(link.href.slice(link.href.indexOf(',') + 1));
  const ran = text.split('\n').map(line => line.match(stretch)).filter(Boolean).map(part => ({
    cpu: Number(part[1]), from: Number(part[2]), to: Number(part[3]), thread: part[4], name: part[5].replaceAll('""', '"'),
  }));

  const told = document.createElement('output');
  told.className = 'told';
  told.textContent = 'Point at a CPU, or focus the picture: arrow keys move, plus and minus zoom.';
  region.after(told);
  const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  cursor.setAttribute('class', 'cursor');
  svg.append(cursor);

  let cpu = 0, at = 0, zoom = 1;
  const show = () => {
    const now = ran.find(it => it.cpu === cpu && it.from <= at && at < it.to);
    const what = now ? `${now.name || 'unnamed'} (${now.thread}), from ${now.from.toFixed(4)} to ${now.to.toFixed(4)} s` : 'idle';
    const wait = waiting[Math.min(Math.floor(at / column), waiting.length - 1)] || 0;
    told.textContent = `CPU ${cpu} at ${at.toFixed(4)} s: ${what}; waiting: ${wait} tasks`;
    const x = left + at / seconds * (width - left);
    cursor.setAttribute('x1', x);
    cursor.setAttribute('x2', x);
    cursor.setAttribute('y1', cpu * row);
    cursor.setAttribute('y2', (cpu + 1) * row);
  };
  const go = (toCpu, toAt) => {
    cpu = Math.min(Math.max(toCpu, 0), cpus - 1);
    at = Math.min(Math.max(toAt, 0), seconds);
    show();
  };
  svg.addEventListener('pointermove', event => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    if (point.x >= left && point.y < cpus * row)
      go(Math.floor(point.y / row), (point.x - left) / (width - left) * seconds);
  });
  const enlarge = by => {
    zoom = Math.min(Math.max(zoom * by, 1), 32);
    svg.style.width = zoom === 1 ? '' : `${68 * zoom}rem`;
    svg.style.maxWidth = zoom === 1 ? '' : 'none';
    region.scrollLeft = (left + at / seconds * (width - left)) / width * region.scrollWidth - region.clientWidth / 2;
  };
  const step = () => seconds / 200 / zoom;
  const keys = {
    ArrowLeft: () => go(cpu, at - step()), ArrowRight: () => go(cpu, at + step()),
    ArrowUp: () => go(cpu - 1, at), ArrowDown: () => go(cpu + 1, at),
    '+': () => enlarge(2), '-': () => enlarge(0.5),
  };
  region.addEventListener('keydown', event => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey)
      return;
    event.preventDefault();
    keys[event.key]();
  });
}
