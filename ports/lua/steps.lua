-- What the kill test does to a state: step(k) depends on the state and on k alone, digest() on all that it has.
data = data or { last = 0, tables = {}, strings = {}, queue = {}, log = {} }
local Account = {}
Account.__index = Account
function Account:pay(n) self.sum = self.sum + n; self.times = self.times + 1; return self end
Account.__eq = function(a, b) return a.sum == b.sum end
Account.__tostring = function(a) return a.name .. ":" .. a.sum end

local function new_counter(from)
  local n = from
  return function(d) n = n + d; return n end
end
local function walker(list)
  return coroutine.wrap(function()
    local sum = 0
    while true do
      for i = 1, #list do sum = (sum * 31 + list[i]) % 1000003; coroutine.yield(sum) end
      coroutine.yield(sum)
    end
  end)
end

local kinds = {
  function(k) data.tables[k % 97] = { k, k * 2, name = "t" .. k, inner = { k = k } } end,
  function(k) data.strings[#data.strings + 1] = ("s"):rep(k % 50) .. k end,
  function(k) if #data.strings > 200 then table.remove(data.strings, k % #data.strings + 1) end end,
  function(k)
    data.accounts = data.accounts or {}
    local name = "a" .. k % 13
    data.accounts[name] = data.accounts[name] or setmetatable({ name = name, sum = 0, times = 0 }, Account)
    data.accounts[name]:pay(k)
  end,
  function(k) data.counter = data.counter or new_counter(k); data.counted = data.counter(k % 7) end,
  function(k)
    data.list = data.list or {}
    data.list[#data.list + 1] = k
    data.walk = data.walk or walker(data.list)
    data.walked = data.walk()
  end,
  function(k) data.big = {}; for i = 1, 500 + k % 3000 do data.big[i] = i * k % 1009 end; table.sort(data.big) end,
  function(k) data.made = load("return function(x) return x * " .. k % 100 .. " + " .. k % 10 .. " end")() end,
  function(k) data.tables = k % 5 == 0 and {} or data.tables end,
  function(k) data.text = (data.text or ""):sub(-2000) .. string.format("%d %s %q;", k, k % 2 == 0, "x\n" .. k) end,
  function(k) table.insert(data.queue, k); if #data.queue > 64 then table.remove(data.queue, 1) end end,
  function(k) if k % 4 == 0 then collectgarbage() end end,
}

function step(k)
  assert(k == data.last + 1, "steps are out of order")
  kinds[k * 7 % #kinds + 1](k)
  if k % 3 == 0 then kinds[k * 5 % #kinds + 1](k) end
  data.last = k
end

local function sum_of(v, seen)
  local kind = type(v)
  if kind == "table" then
    if seen[v] then return 7 end
    seen[v] = true
    local keys = {}
    for key in pairs(v) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    local h = 17
    for _, key in ipairs(keys) do h = (h * 31 + sum_of(key, seen) * 7 + sum_of(rawget(v, key), seen)) % 2147483647 end
    return h
  elseif kind == "string" then
    local h = #v
    for i = 1, #v, 1 + #v // 64 do h = (h * 31 + v:byte(i)) % 2147483647 end
    return h
  elseif kind == "number" then
    return math.tointeger(v) and v % 2147483647 or 3
  elseif kind == "boolean" then
    return v and 1 or 2
  end
  return 5
end

function digest()
  local h = sum_of(data, {})
  if data.made then h = (h * 31 + data.made(data.last)) % 2147483647 end
  if data.accounts then
    for _, name in ipairs { "a1", "a2", "a3" } do h = (h * 31 + sum_of(tostring(data.accounts[name]), {})) % 2147483647 end
  end
  return h
end
