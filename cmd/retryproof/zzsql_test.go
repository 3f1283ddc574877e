package main
import ("testing";"runtime/debug";"os";"runtime/pprof";"runtime";"context";"fmt";"time")
func TestProf(t *testing.T){
 debug.SetGCPercent(400)
 runtime.GOMAXPROCS(1)
 st,_:=openSimStores(context.Background(),"sqlite")
 e:=exploreCommand{}
 f,_:=os.Create("/tmp/prof/cpusql"); pprof.StartCPUProfile(f)
 b:=time.Now(); n:=0
 for seed:=uint64(1);seed<=600;seed++{ r,_:=e.one(seed,nil,st); n+=r.Payments }
 fmt.Println(float64(n)/time.Since(b).Seconds())
 pprof.StopCPUProfile(); f.Close()
}
