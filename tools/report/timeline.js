// The timeline of a step: a lane per rank and stream. The wheel, + and - zoom, dragging and the arrows move, 0 shows
// all of it. `data`: {step_us, words, sorts: [[name, colour]], lanes: [{label, spans: [[begin_us, length_us, word,
// sort, micro-batch or -1]]}]}.
export function timeline(parent, data) {
  const lane = 18, axis = 22;
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text) element.textContent = text;
    return element;
  };
  const canvas = make('canvas'), under = make('p', 'under'), pen = canvas.getContext('2d');
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `timeline of a step of ${(data.step_us / 1000).toPrecision(4)} ms, ` +
      `${data.lanes.length} lanes; + and - zoom, arrows move`);
  let from = 0, to = data.step_us, wide = 0, label = 0;
  const x_of = t => label + (t - from) / (to - from) * (wide - label);
  const t_of = x => from + (x - label) / (wide - label) * (to - from);

  function draw() {
    const style = getComputedStyle(parent), colour = name => style.getPropertyValue(name).trim();
    wide = canvas.clientWidth || 800;
    label = wide < 600 ? 105 : 150;
    const ratio = window.devicePixelRatio || 1, high = axis + lane * data.lanes.length;
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    canvas.style.height = high + 'px';
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = '11px sans-serif';
    let drawn = 0;
    data.lanes.forEach((each, i) => {
      const y = axis + i * lane;
      pen.fillStyle = colour(i % 2 ? '--card' : '--soft');
      pen.fillRect(0, y, wide, lane);
      let free = label;
      for (const [begin, length, word, sort] of each.spans) {
        if (begin + length < from || begin > to) continue;
        const left = Math.max(label, x_of(begin)), right = Math.min(wide, x_of(begin + length));
        if (right <= free && right - left < 0.5) continue;
        pen.fillStyle = data.sorts[sort][1];
        pen.fillRect(left, y + 2, Math.max(0.5, right - left), lane - 4);
        if (right - left > 60) {
          pen.fillStyle = '#fff';
          pen.save();
          pen.beginPath();
          pen.rect(left, y, right - left - 3, lane);
          pen.clip();
          pen.fillText(data.words[word], left + 3, y + 13);
          pen.restore();
        }
        free = right;
        ++drawn;
      }
      pen.fillStyle = colour('--text');
      pen.fillText(each.label, 2, y + 13);
    });
    pen.fillStyle = colour('--faint');
    const marks = wide < 600 ? 2 : 5;
    for (let i = 0; i <= marks; ++i) {
      const t = from + (to - from) * i / marks;
      pen.textAlign = i === marks ? 'right' : i === 0 ? 'left' : 'center';
      pen.fillText((t / 1000).toPrecision(5) + ' ms', x_of(t), 14);
    }
    pen.textAlign = 'left';
    Object.assign(canvas.dataset, {drawn, from, to});
  }
  function show(first, last) {
    const length = Math.min(data.step_us, Math.max(1e-3, last - first));
    from = Math.min(Math.max(0, first), data.step_us - length);
    to = from + length;
    draw();
  }
  const zoom = (factor, t = (from + to) / 2) => show(t - (t - from) * factor, t + (to - t) * factor);
  const move = share => show(from + share * (to - from), to + share * (to - from));
  const all = () => show(0, data.step_us);

  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, t_of(event.offsetX));
  }, {passive: false});
  const keys = {'+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => move(-0.2),
                ArrowRight: () => move(0.2), 0: all};
  canvas.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  let held = null;
  canvas.addEventListener('pointerdown', event => {
    held = {x: event.offsetX, from, to};
    canvas.setPointerCapture(event.pointerId);
  });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => held = null);
  canvas.addEventListener('dblclick', all);
  canvas.addEventListener('pointermove', event => {
    if (held) {
      const moved = (held.x - event.offsetX) / (wide - label) * (held.to - held.from);
      show(held.from + moved, held.to + moved);
      return;
    }
    const each = data.lanes[Math.floor((event.offsetY - axis) / lane)], t = t_of(event.offsetX);
    const span = each && each.spans.find(s => s[0] <= t && t <= s[0] + s[1]);
    under.textContent = span ? `${each.label}: ${data.words[span[2]]}` +
        (span[4] >= 0 ? `, micro-batch ${span[4]}` : '') +
        `, at ${(span[0] / 1000).toPrecision(6)} ms for ${span[1].toPrecision(4)} µs` : '';
  });
  window.addEventListener('resize', draw);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

  const legend = make('div', 'keys');
  const used = new Set(data.lanes.flatMap(each => each.spans.map(span => span[3])));
  data.sorts.forEach(([name, colour], sort) => {
    if (!used.has(sort)) return;
    const key = make('span', 'key'), box = make('i');
    box.style.background = colour;
    key.append(box, name);
    legend.append(key);
  });
  const tools = make('div', 'tools');
  for (const [text, act] of [['Zoom in', keys['+']], ['Zoom out', keys['-']], ['Earlier', keys.ArrowLeft],
                             ['Later', keys.ArrowRight], ['Whole step', all]]) {
    const button = make('button', '', text);
    button.type = 'button';
    button.addEventListener('click', act);
    tools.append(button);
  }
  parent.classList.add('timeline');
  parent.replaceChildren(legend, canvas, under, tools,
      make('figcaption', '', 'Time in ms from the beginning of the step; one rank stands for all that behave like it. ' +
                             'Wheel or + and -: zoom. Drag or arrows: move. 0: the whole step.'));
  draw();
}
