// SPDX-License-Identifier: GPL-2.0-only
//! The names that a file declares. They are collected before its lines are read, so that a line may
//! use a name that a later line declares. Only the parent of a group must come first.

use std::collections::HashMap;

use super::lines::{Line, first_word};
use super::value;

/// The names of one kind of part.
pub(super) struct Index<'t> {
    kind: &'static str,
    /// Index and line of each name.
    places: HashMap<&'t str, (usize, usize)>,
    /// The names, in the order of the file.
    pub(super) all: Vec<&'t str>,
}

impl<'t> Index<'t> {
    fn new(kind: &'static str) -> Self {
        Self { kind, places: HashMap::new(), all: Vec::new() }
    }

    fn declare(&mut self, name: &'t str, line: usize) -> Result<(), String> {
        if let Some((_, first)) = self.places.get(name) {
            let kind = self.kind;
            return Err(format!(
                "{kind} {name} is declared in line {first} already; write another name"
            ));
        }
        self.places.insert(name, (self.all.len(), line));
        self.all.push(name);
        Ok(())
    }

    /// The index of a name.
    pub(super) fn find(&self, name: &str) -> Result<usize, String> {
        self.places.get(name).map(|(index, _)| *index).ok_or_else(|| {
            let (kind, shown) = (self.kind, value::quoted(name));
            let near = value::nearest(name, self.all.iter().copied());
            match near {
                Some(near) => format!("no {kind} {shown}; did you mean {near}?"),
                None => format!("no {kind} {shown}; declare it in a line that begins with {kind}"),
            }
        })
    }
}

/// All names of a file.
pub(super) struct Names<'t> {
    pub(super) groups: Index<'t>,
    pub(super) queues: Index<'t>,
    pub(super) locks: Index<'t>,
    pub(super) tasks: Index<'t>,
    pub(super) vms: Index<'t>,
}

impl<'t> Names<'t> {
    /// Collects the names that the lines declare. An error consists of a line number and a reason.
    pub(super) fn of(lines: &[Line<'t>]) -> Result<Self, (usize, String)> {
        let mut names = Self {
            groups: Index::new("group"),
            queues: Index::new("queue"),
            locks: Index::new("lock"),
            tasks: Index::new("task"),
            vms: Index::new("vm"),
        };
        for line in lines {
            names.declare(line).map_err(|reason| (line.number, reason))?;
        }
        Ok(names)
    }

    fn declare(&mut self, line: &Line<'t>) -> Result<(), String> {
        let (index, example) = match line.word {
            "group" => (&mut self.groups, "group web weight=100"),
            "queue" => (&mut self.queues, "queue work"),
            "lock" => (&mut self.locks, "lock big"),
            "task" => (&mut self.tasks, "task hog : run forever"),
            "vm" => (&mut self.vms, "vm guest vcpus=2"),
            _ => return Ok(()),
        };
        let (name, _) = first_word(line.word, line.rest.split(':').next().unwrap_or(""), example)?;
        match line.word {
            "group" => value::path(name)?,
            _ => value::name(name)?,
        }
        index.declare(name, line.number)?;
        // Reports show only the names of tasks and VMs, so the names must differ.
        if line.word == "vm" && self.tasks.places.contains_key(name)
            || line.word == "task" && self.vms.places.contains_key(name)
        {
            return Err(format!("a task and a vm are both called {name}; rename one of them"));
        }
        Ok(())
    }

    /// The index of a group; `/` is the root group.
    pub(super) fn group(&self, path: &str) -> Result<Option<usize>, String> {
        if path == "/" { Ok(None) } else { self.groups.find(path).map(Some) }
    }

    /// The parent of the group with an index, which must be declared before it.
    pub(super) fn parent(&self, group: usize) -> Result<Option<usize>, String> {
        let path = self.groups.all[group];
        let Some((parent, _)) = path.rsplit_once('/') else { return Ok(None) };
        match self.groups.places.get(parent) {
            Some((index, _)) if *index < group => Ok(Some(*index)),
            Some((_, line)) => Err(format!(
                "the parent {parent} is declared later, in line {line}; write parents first"
            )),
            None => Err(format!(
                "the parent {parent} is not declared; write group {parent} in a line before"
            )),
        }
    }
}
