#include "decompiler/decompile.h"

#include <algorithm>
#include <map>
#include <set>

#include "bytecode/verify.h"
#include "cpython/codec.h"
#include "cpython/objects.h"
#include "decompiler/bodies.h"
#include "decompiler/machine.h"
#include "decompiler/reader.h"
#include "decompiler/unparse.h"

namespace evalframe::decompiler {
namespace {

// Tried in this order, each code object for itself, until what comes out is exactly the same.
constexpr GraphOptions kWays[] = {
    {.merge = true, .positions = true, .merge_returns = false},
    {.merge = true, .positions = true, .merge_returns = true},
    {.merge = true, .positions = true, .merge_returns = false, .last_copies = true},
    {.merge = true, .positions = false, .merge_returns = true},
    {.merge = false, .positions = false, .merge_returns = false},
};
constexpr int kWayCount = std::size(kWays);
// Behind them, in place of a way.
constexpr int kMachine = kWayCount;  // as a state machine
constexpr int kRefused = kMachine + 1;
constexpr int kDeepestFunction = 60;
// What stands inside of what had to become a state machine is come to late.
constexpr int kRounds = 3 * kRefused;
// Code objects may stand in one another many times over.
constexpr int kReads = 100'000;

std::string text_of(PyObject* text) {
  const char* const characters = PyUnicode_AsUTF8(text);
  if (characters) return characters;
  PyErr_Clear();
  return "?";
}

std::string raised() {
  const Ref error = cpython::take_raised();
  const Ref text = Ref::steal(error ? PyObject_Str(error.get()) : nullptr);
  if (!text) PyErr_Clear();
  return text ? text_of(text.get()) : "an error without a text";
}

// What is known of one code object.
struct Attempt {
  int way = 0;
  Status best = Status::refused;
  int best_way = kRefused;
  std::string reason;         // why it is refused, or how it differs
};

// Decompiles one code object with all that are in it.
class Session {
 public:
  Session(PyCodeObject* code, const Surroundings& surroundings, bool machines) : code_(code), surroundings_(surroundings), machines_(machines) {}

  Result run() {
    for (int round = 0; round < kRounds; round++) {
      attempt();
      bool again = false;
      for (auto& [code, attempt] : attempts_) {
        const int last = attempt.best == Status::refused ? kMachine : kWayCount - 1;
        if (attempt.best == Status::exact || attempt.way >= last) continue;
        attempt.way++;
        again = true;
      }
      if (!again) break;
    }
    settle();
    return result();
  }

 private:
  // Each in its best way; what isn't confirmed so is refused, until all is.
  void settle() {
    for (int round = 0; round < 8; round++) {
      for (auto& [code, attempt] : attempts_) attempt.way = attempt.best_way;
      for (auto& [code, attempt] : attempts_) attempt.best = attempt.way == kRefused ? Status::refused : attempt.best;
      confirmed_.clear();
      source_.clear();
      written_ = false;
      attempt();
      bool good = true;
      for (auto& [code, attempt] : attempts_) {
        if (attempt.way == kRefused || !reached_.contains(code)) continue;
        if (confirmed_.contains(code)) continue;
        attempt.best_way = kRefused;
        attempt.best = Status::refused;
        good = false;
      }
      if (good) return;
    }
    written_ = false;
  }

  // Reads everything, compiles it, and compares.
  void attempt() {
    for (int tries = 0; tries < 40; tries++) {
      std::vector<Lines> lines;
      std::string text;
      reached_.clear();
      around_.clear();
      try {
        text = text_of_all(lines);
      } catch (const Refused& refused) {
        blame(reinterpret_cast<PyObject*>(code_), refused.what());
        if (top().way >= kRefused) return;
        continue;
      }
      const Ref compiled = compiled_text(text);
      if (compiled) {
        source_ = text;
        written_ = true;
        judge(compiled.get());
        return;
      }
      PyObject* const guilty = at_line(lines, error_line_);
      const std::string why = "its source isn't valid: " + error_text_;
      if (attempts_[guilty].way >= kRefused) return;
      blame(guilty, why);
      if (top().way >= kRefused) return;
    }
  }

  Attempt& top() { return attempts_[reinterpret_cast<PyObject*>(code_)]; }

  void blame(PyObject* code, const std::string& why) {
    Attempt& attempt = attempts_[code];
    if (attempt.reason.empty()) attempt.reason = why;
    else if (attempt.way == kMachine && attempt.reason != why) attempt.reason += "; as a state machine: " + why;
    attempt.way++;
  }

  // The innermost code object that stands on a line, else the whole.
  PyObject* at_line(const std::vector<Lines>& lines, int line) const {
    const Lines* best = nullptr;
    for (const Lines& row : lines) {
      if (line < row.first || line > row.last) continue;
      if (best == nullptr || row.last - row.first <= best->last - best->first) best = &row;
    }
    return best ? best->code : reinterpret_cast<PyObject*>(code_);
  }

  std::string text_of_all(std::vector<Lines>& lines) {
    Tree& tree = tree_;
    const bool function = (code_->co_flags & CO_NEWLOCALS) != 0 && (code_->co_flags & CO_OPTIMIZED);
    const std::string own = text_of(code_->co_name);
    Node* node = tree.make(Kind::Function, {nullptr, nullptr, nullptr}, own);
    node->constant = reinterpret_cast<PyObject*>(code_);
    if (!function) {
      if (code_->co_flags & CO_NEWLOCALS || is_class()) node->kind = Kind::Class;
      else return module_text(lines);
    } else if (own == "<lambda>") {
      node->kind = Kind::Lambda;
    } else if (own.starts_with("<")) {
      throw_top("the code object of a comprehension; decompile the code that it stands in");
    }
    if (node->kind == Kind::Class) node->items.clear();
    add_surroundings(node);
    read_nested(node);
    if (node->kind == Kind::Lambda) node = tree.make(Kind::Expr, {node});
    return wrapped(node, lines);
  }

  bool is_class() const {
    // A class body starts by naming its module.
    const bytecode::Code* const decoded = decoded_if_possible(code_);
    for (size_t i = 0; decoded && i + 1 < decoded->instructions.size() && i < 8; i++) {
      const auto& next = decoded->instructions[i + 1];
      if (decoded->instructions[i].op == bytecode::Op::LOAD_NAME && next.op == bytecode::Op::STORE_NAME && next.arg < PyTuple_GET_SIZE(code_->co_names) && text_of(PyTuple_GET_ITEM(code_->co_names, next.arg)) == "__module__") return true;
    }
    return false;
  }

  [[noreturn]] void throw_top(const std::string& why) {
    top().way = kRefused;
    throw Refused(why);
  }

  std::string module_text(std::vector<Lines>& lines) {
    Attempt& attempt = top();
    if (attempt.way >= kRefused) throw Refused(attempt.reason);
    Nodes body = body_of(reinterpret_cast<PyObject*>(code_), attempt);
    finish_module(tree_, code_, body);
    return statements_text(body, 0, &lines);
  }

  void add_surroundings(Node* node) {
    if (node->kind != Kind::Function && node->kind != Kind::Lambda) return;
    if (!surroundings_.defaults.empty()) {
      node->items[0] = tree_.make(Kind::Tuple);
      for (const std::string& text : surroundings_.defaults) node->items[0]->items.push_back(tree_.make(Kind::Raw, {}, text));
    }
    if (surroundings_.keyword_defaults.empty()) return;
    node->items[1] = tree_.make(Kind::Dict);
    for (const auto& [key, text] : surroundings_.keyword_defaults) node->items[1]->items.insert(node->items[1]->items.end(), {tree_.make(Kind::Name, {}, key), tree_.make(Kind::Raw, {}, text)});
  }

  // A function of its own stands where its free variables are variables of a function around it.
  std::string wrapped(Node* node, std::vector<Lines>& lines) {
    std::string free;
    bool in_class = false;
    for (int i = first_free(code_); i < code_->co_nlocalsplus; i++) {
      const std::string name = text_of(PyTuple_GET_ITEM(code_->co_localsplusnames, i));
      if (name == "__class__") in_class = true;
      else free += name + " = ";
    }
    places_.clear();
    own_ = statements_text({node}, 0, &lines, &places_);
    std::string head;
    if (code_->co_flags & CO_FUTURE_ANNOTATIONS) head += "from __future__ import annotations\n";
    std::set<std::string> imported;
    add_imported(code_, imported);
    for (const std::string& name : imported) head += "import " + name + "\n";
    int indent = 0;
    if (!free.empty()) {
      head += "def around():\n    " + free + "None\n";
      indent++;
    }
    if (in_class) head += std::string(4 * static_cast<size_t>(indent++), ' ') + "class _:\n";
    shift_ = static_cast<int>(std::count(head.begin(), head.end(), '\n'));
    for (Lines& row : lines) {
      row.first += shift_;
      row.last += shift_;
    }
    return head + statements_text({node}, indent);
  }

  // Names that the module around it imports: the compiler calls their attributes as such, not as methods.
  static void add_imported(PyCodeObject* code, std::set<std::string>& names, int depth = 0) {
    const bytecode::Code* const decoded = decoded_if_possible(code);
    using bytecode::Op;
    for (size_t i = 0; decoded && i + 2 < decoded->instructions.size(); i++) {
      const auto& one = decoded->instructions[i];
      if (one.op != Op::LOAD_GLOBAL || decoded->instructions[i + 1].op != Op::LOAD_ATTR || one.arg >= PyTuple_GET_SIZE(code->co_names)) continue;
      const bool called = one.arg2 == 1 || decoded->instructions[i + 2].op == Op::PUSH_NULL;
      PyObject* const name = PyTuple_GET_ITEM(code->co_names, one.arg);
      if (called && PyUnicode_IsIdentifier(name) == 1) names.insert(text_of(name));
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts) && depth < kDeepestFunction; i++) {
      PyObject* const inner = PyTuple_GET_ITEM(code->co_consts, i);
      if (PyCode_Check(inner)) add_imported(reinterpret_cast<PyCodeObject*>(inner), names, depth + 1);
    }
  }

  // The body in the way that is to be tried.
  Nodes body_of(PyObject* object, Attempt& attempt) {
    const auto* const code = reinterpret_cast<PyCodeObject*>(object);
    const auto decoded = cpython::decode(object);
    if (!decoded) throw Refused(raised());
    bytecode::StackDepths depths;
    if (const auto problem = bytecode::verify(*decoded, bytecode::operands_of(*decoded), depths)) throw Refused(bytecode::describe(*decoded, *problem));
    if (decoded->instructions.size() > 200'000) throw Refused("it is too long");
    around_.push_back(const_cast<PyCodeObject*>(code));
    struct Leave {
      std::vector<PyCodeObject*>& around;
      ~Leave() { around.pop_back(); }
    } const leave{around_};
    if (++reads_ > kReads) throw Refused("it has too many functions");
    if (around_.size() > kDeepestFunction) throw Refused("functions nested too deeply");
    const auto nested = [this](Node* node) { read_nested(node); };
    const ConstantNames& names = code == code_ ? surroundings_.constant_names : ConstantNames();
    if (attempt.way == kMachine) return machine_body(tree_, *decoded, depths.before, nested, {names, code == code_ && surroundings_.generated, attempt.reason});
    Reader reader(tree_, *decoded, make_graph(*decoded, depths.before, kWays[attempt.way]), nested, names);
    return reader.read();
  }

  // Fills in the body of a function or class inside.
  void read_nested(Node* node) {
    PyObject* const object = node->constant;
    auto* const code = reinterpret_cast<PyCodeObject*>(object);
    Attempt& attempt = attempts_[object];
    // Written with what is around it, if at all.
    const bool is_part = node->kind == Kind::Comprehension || node->kind == Kind::TypeScope;
    const bool is_expression = is_part || node->kind == Kind::Lambda;
    if (machines_ && node->kind == Kind::Function) attempt.way = std::max(attempt.way, kMachine);
    reached_.insert(object);
    for (;;) {
      if (attempt.way >= kRefused) {
        if (is_part) throw Refused(text_of(code->co_name) + ": " + attempt.reason);
        node->body = is_expression ? Nodes{refused_expression(tree_, code, attempt.reason)} : refused_body(tree_, code, attempt.reason);
        return;
      }
      try {
        if (is_expression && attempt.way == kMachine) throw Refused("an expression can't be a state machine");
        Nodes body = body_of(object, attempt);
        switch (node->kind) {
          case Kind::Lambda: finish_lambda(body); break;
          case Kind::Comprehension: finish_comprehension(body); break;
          case Kind::TypeScope: break;
          case Kind::Class: finish_class(tree_, code, around_, body); break;
          default: finish_function(tree_, code, around_, body); break;
        }
        if (code == code_ && surroundings_.generated && attempt.way != kMachine) keep_variables(tree_, code, body);
        // Written once by itself, so that what can't be written is known to be its own fault.
        if (node->kind == Kind::Lambda) expression_text(body[0]);
        else if (!is_part) statements_text(body, 0);
        node->body = body;
        return;
      } catch (const Refused& refused) {
        blame(object, refused.what());
      }
    }
  }

  Ref compiled_text(const std::string& text) {
    if (text.size() > 50'000'000 || text.find('\0') != std::string::npos) {
      error_line_ = -1;
      error_text_ = "it is too long";
      return {};
    }
    PyCompilerFlags flags{PyCF_IGNORE_COOKIE, PY_MINOR_VERSION};
    Ref compiled = Ref::steal(Py_CompileStringExFlags(text.c_str(), "<decompiled>", Py_file_input, &flags, 0));
    if (compiled) return compiled;
    const Ref error = cpython::take_raised();
    error_line_ = -1;
    const Ref line = Ref::steal(error ? PyObject_GetAttrString(error.get(), "lineno") : nullptr);
    if (line && PyLong_Check(line.get())) error_line_ = static_cast<int>(PyLong_AsLong(line.get()));
    PyErr_Clear();
    const Ref message = Ref::steal(error ? PyObject_Str(error.get()) : nullptr);
    error_text_ = message ? text_of(message.get()) : "?";
    PyErr_Clear();
    return {};
  }

  // The code object in the compiled text that stands for ours.
  PyObject* own_code(PyObject* compiled, int depth = 0) const {
    if (source_of_module()) return compiled;
    PyObject* const constants = reinterpret_cast<PyCodeObject*>(compiled)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants) && depth < 4; i++) {
      PyObject* const inner = PyTuple_GET_ITEM(constants, i);
      if (!PyCode_Check(inner)) continue;
      const std::string name = text_of(reinterpret_cast<PyCodeObject*>(inner)->co_name);
      if (name == text_of(code_->co_name) && reinterpret_cast<PyCodeObject*>(inner)->co_nfreevars == code_->co_nfreevars) return inner;
      if (name == "around" || name == "_") return own_code(inner, depth + 1);
    }
    return nullptr;
  }
  bool source_of_module() const { return own_.empty(); }

  void judge(PyObject* compiled) {
    PyObject* const own = own_code(compiled);
    if (own == nullptr) {
      blame_comparison(reinterpret_cast<PyObject*>(code_), "written again it isn't a function");
      return;
    }
    judge_pair(reinterpret_cast<PyObject*>(code_), own, true);
  }

  void blame_comparison(PyObject* code, const std::string& why) {
    Attempt& attempt = attempts_[code];
    if (attempt.best == Status::refused && (attempt.reason.empty() || attempt.way == 0)) attempt.reason = why;
  }

  void judge_pair(PyObject* a, PyObject* b, bool is_top) {
    Attempt& attempt = attempts_[a];
    // What has no body of its own here wasn't verified either.
    if (attempt.way >= kRefused || (!is_top && !reached_.contains(a))) return;
    const auto first = cpython::decode(a), second = cpython::decode(b);
    if (!first || !second) {
      blame_comparison(a, raised());
      return;
    }
    if (attempt.way == kMachine) return judge_machine(a, b, is_top);
    const Comparison found = compare(*first, *second, is_top);
    if (is_top) {
      lines_.clear();
      for (const auto& [i, j] : found.pairs) lines_.push_back({i, second->positions[static_cast<size_t>(j)].line - shift_});
    }
    if (found.status == Status::refused) {
      blame_comparison(a, found.difference);
      for (const auto& [x, y] : nested_by_place(a, b)) judge_pair(x, y, false);
      return;
    }
    confirmed_.insert(a);
    if (found.status > attempt.best) {
      attempt.best = found.status;
      attempt.best_way = attempt.way;
      attempt.reason = found.difference;
    }
    for (const auto& [x, y] : found.nested) judge_pair(x, y, false);
  }

  // What it does isn't compared: only what is told of it besides.
  void judge_machine(PyObject* a, PyObject* b, bool is_top) {
    const std::string difference = head_difference(reinterpret_cast<PyCodeObject*>(a), reinterpret_cast<PyCodeObject*>(b), is_top);
    if (!difference.empty()) {
      Attempt& attempt = attempts_[a];
      if (attempt.best == Status::refused) attempt.reason += (attempt.reason.empty() ? "" : "; ") + std::string("as a state machine: ") + difference;
      return;
    }
    confirmed_.insert(a);
    if (is_top) lines_ = places_;
    Attempt& attempt = attempts_[a];
    if (attempt.best == Status::refused) {
      attempt.best = Status::machine;
      attempt.best_way = kMachine;
    }
    for (const auto& [x, y] : nested_by_place(a, b)) judge_pair(x, y, false);
  }

  // Where the code around differs, those in it are told by name and place.
  std::vector<std::pair<PyObject*, PyObject*>> nested_by_place(PyObject* a, PyObject* b) const {
    std::vector<std::pair<PyObject*, PyObject*>> pairs;
    PyObject* const x = reinterpret_cast<PyCodeObject*>(a)->co_consts;
    PyObject* const y = reinterpret_cast<PyCodeObject*>(b)->co_consts;
    std::set<PyObject*> taken;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); i++) {
      PyObject* const one = PyTuple_GET_ITEM(x, i);
      if (!reached_.contains(one)) continue;
      std::vector<PyObject*> likely;
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(y); j++) {
        PyObject* const other = PyTuple_GET_ITEM(y, j);
        if (!PyCode_Check(other) || taken.contains(other)) continue;
        if (PyUnicode_Compare(reinterpret_cast<PyCodeObject*>(one)->co_name, reinterpret_cast<PyCodeObject*>(other)->co_name) == 0) likely.push_back(other);
      }
      if (likely.empty()) continue;
      const auto same = likely.size() == 1 ? likely.begin() : std::find_if(likely.begin(), likely.end(), [&](PyObject* other) { return are_same(one, other); });
      PyObject* const other = same == likely.end() ? likely[0] : *same;
      pairs.push_back({one, other});
      taken.insert(other);
    }
    return pairs;
  }

  static bool are_same(PyObject* a, PyObject* b) {
    const auto first = cpython::decode(a), second = cpython::decode(b);
    if (!first || !second) PyErr_Clear();
    return first && second && compare(*first, *second, false).status != Status::refused;
  }

  Result result() {
    Result result;
    add_rows(reinterpret_cast<PyObject*>(code_), result, "", 0);
    if (top().best != Status::refused && written_) {
      result.written = true;
      result.source = own_.empty() ? source_ : own_;
      result.lines = lines_;
    }
    return result;
  }

  void add_rows(PyObject* object, Result& result, const std::string& around, int depth) {
    const auto known = attempts_.find(object);
    Row row{Ref::borrow(object), Status::refused, around};
    const bool here = around.empty() && known != attempts_.end() && reached(object) && written_;
    if (here) {
      row.status = known->second.best;
      row.reason = row.status == Status::exact ? "" : known->second.reason;
    } else if (around.empty()) {
      row.reason = known != attempts_.end() && !known->second.reason.empty() ? known->second.reason : "it isn't loaded by the code around it";
    }
    const bool refused = row.status == Status::refused;
    if (refused && row.reason.empty()) row.reason = "it comes back with what is in it in one way, and that in another";
    result.rows.push_back(std::move(row));
    PyObject* const constants = reinterpret_cast<PyCodeObject*>(object)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants) && depth < kDeepestFunction && result.rows.size() < kReads; i++) {
      PyObject* const inner = PyTuple_GET_ITEM(constants, i);
      if (PyCode_Check(inner)) add_rows(inner, result, refused ? "it is inside of what is refused" : "", depth + 1);
    }
  }
  bool reached(PyObject* object) const { return object == reinterpret_cast<const PyObject*>(code_) || reached_.contains(object); }

  PyCodeObject* code_;
  const Surroundings& surroundings_;
  const bool machines_;  // functions are state machines from the start
  Tree tree_;
  std::map<PyObject*, Attempt> attempts_;
  std::vector<PyCodeObject*> around_;
  std::set<PyObject*> reached_, confirmed_;
  std::string source_, own_, error_text_;
  bool written_ = false;  // whether `source_` is that of all
  std::vector<std::pair<int, int>> lines_, places_;
  int shift_ = 0;  // lines around the source that it's checked in
  int error_line_ = -1;
  int reads_ = 0;
};

}  // namespace

Result decompile(Borrowed code, const Surroundings& surroundings, bool machines) { return Session(code.as<PyCodeObject>(), surroundings, machines).run(); }

}  // namespace evalframe::decompiler
