// Elements. Text of a job or an answer becomes text, never markup.

export const element = id => document.getElementById(id);

export function make(tag, text = '', name = '') {
  const each = document.createElement(tag);
  if (text !== '') each.textContent = text;
  if (name) each.className = name;
  return each;
}

// `label`: said in place of the text, where that alone says little.
export function button(text, act, label) {
  const each = make('button', text);
  each.type = 'button';
  if (label) each.setAttribute('aria-label', label);
  each.addEventListener('click', act);
  return each;
}

// [[name, value, note]] as the numbers that matter most.
export function numbers(rows) {
  const all = make('div', '', 'numbers');
  for (const [name, value, note] of rows) {
    const each = make('div');
    each.append(make('span', name, 'name'), make('span', value, 'value'));
    if (note) each.append(make('span', note, 'note'));
    all.append(each);
  }
  return all;
}

// [[name, value]].
export function facts(rows) {
  const all = make('dl', '', 'facts');
  for (const [name, value] of rows) all.append(make('dt', name), make('dd', value));
  return all;
}

// `head`: [[title, class]]; a cell is text or an element. A narrow screen shows a row as a block, with its titles before its
// cells (page.css), so the roles are said: blocks have none.
export function table(head, rows) {
  const box = make('div', '', 'wide'), all = make('table'), top = make('thead'), body = make('tbody');
  const line = make('tr');
  const with_role = (each, role) => {
    each.setAttribute('role', role);
    return each;
  };
  for (const [title, name] of head) line.append(with_role(make('th', title, name), 'columnheader'));
  top.append(with_role(line, 'row'));
  for (const cells of rows) {
    const row = with_role(make('tr'), 'row');
    cells.forEach((cell, i) => {
      const each = with_role(make('td', '', head[i][1]), 'cell');
      each.dataset.title = head[i][0];
      each.append(cell);
      row.append(each);
    });
    body.append(row);
  }
  with_role(all, 'table').append(with_role(top, 'rowgroup'), with_role(body, 'rowgroup'));
  box.append(all);
  return box;
}

// A value, and its range below it.
export function with_range(value, range) {
  const all = document.createDocumentFragment();
  all.append(value);
  if (range) all.append(range instanceof Element ? range : make('span', range, 'range'));
  return all;
}

export function save(name, text, type) {
  const link = make('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
