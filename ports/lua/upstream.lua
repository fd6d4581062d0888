-- Runs one of upstream's tests as its all.lua does, without what needs an internal interface or much time.
_U, _port, _soft, _nomsg = true, true, true, true
Message = function() end
local name = arg[1]
assert(loadfile(name))(name)
